"""What EndTxn answers in each state of a transaction, for both protocol versions.

The outcome is checked against the broker's own state, not against what the client believes.
"""

import time
from dataclasses import replace

import pytest
from support.readers import values, wait_until_ended
from support.rows import blocks, named
from support.writing import write

from twophase.errors import EpochStale, InvalidState
from twophase.kafka.admin import TransactionState, describe_transaction
from twophase.kafka.identity import TransactionVersion
from twophase.kafka.transactions import Transactions

ENDED = {
    True: {TransactionState.COMPLETE_COMMIT, TransactionState.PREPARE_COMMIT},
    False: {TransactionState.COMPLETE_ABORT, TransactionState.PREPARE_ABORT},
}


@pytest.fixture
def topic(broker, make_topic):
    return make_topic(broker)


@pytest.fixture
def opened(wire, transactions, transactional_id, topic):
    """An open transaction with three rows in it."""
    identity = transactions.own(transactional_id)
    write(wire, identity, blocks(topic, named("row", 3)))
    return identity


def end(transactions, identity, commit):
    return (transactions.commit if commit else transactions.abort)(identity)


@pytest.mark.parametrize("commit", [True, False])
def test_an_open_transaction_ends_as_asked(commit, wire, broker, transactions, opened, topic):
    """Commit makes the rows visible, abort drops them; version 2 returns the next epoch."""
    assert describe_transaction(wire, opened.transactional_id).state is TransactionState.ONGOING
    following = end(transactions, opened, commit)
    if opened.version is TransactionVersion.V2:
        assert following == opened.successor(opened.producer_id, opened.epoch + 1)
    else:
        assert following is None
    assert describe_transaction(wire, opened.transactional_id).state in ENDED[commit]
    assert values(broker.bootstrap_servers, topic) == (named("row", 3) if commit else [])


@pytest.mark.parametrize("commit", [True, False])
def test_the_same_end_again_is_done_again_or_refused_alike(commit, transactions, opened):
    """A commit may be repeated and gives the same answer; so may an abort."""
    first = end(transactions, opened, commit)
    assert end(transactions, opened, commit) == first


@pytest.mark.parametrize("commit", [True, False])
def test_the_opposite_end_is_refused(commit, wire, broker, transactions, opened):
    """Abort after commit and commit after abort change nothing."""
    end(transactions, opened, commit)
    wait_until_ended(broker.bootstrap_servers)
    with pytest.raises(InvalidState) as caught:
        end(transactions, opened, not commit)
    assert caught.value.ids["transactional_id"] == opened.transactional_id
    assert describe_transaction(wire, opened.transactional_id).state in ENDED[commit]


def test_a_commit_of_nothing_is_refused(transactions, transactional_id):
    """Nothing was written, so there is nothing to commit."""
    with pytest.raises(InvalidState):
        transactions.commit(transactions.own(transactional_id))


def test_an_abort_of_nothing(transactions, transactional_id):
    """Nothing was written: version 2 aborts it and goes on, version 1 refuses."""
    identity = transactions.own(transactional_id)
    if identity.version is TransactionVersion.V2:
        assert transactions.abort(identity).epoch == identity.epoch + 1
    else:
        with pytest.raises(InvalidState):
            transactions.abort(identity)


@pytest.mark.parametrize("difference", [-1, 1])
def test_an_epoch_that_is_not_current_is_stale(
    difference, wire, transactions, transactional_id, topic
):
    """An older and a newer epoch are refused, and the transaction stays open."""
    identity = transactions.reacquire(transactions.own(transactional_id))
    write(wire, identity, blocks(topic, named("row", 3)))
    other = identity.successor(identity.producer_id, identity.epoch + difference)
    for commit in (True, False):
        with pytest.raises(EpochStale):
            end(transactions, other, commit)
    assert describe_transaction(wire, transactional_id).state is TransactionState.ONGOING


def test_another_producer_id_is_stale(wire, transactions, opened):
    """A producer id that is not the current one says nothing about what is open."""
    with pytest.raises(EpochStale):
        transactions.commit(opened.successor(opened.producer_id + 1_000_000, opened.epoch))
    assert describe_transaction(wire, opened.transactional_id).state is TransactionState.ONGOING


def test_a_fenced_owner_can_neither_commit_nor_abort(broker, transactions, opened, topic):
    """A later InitProducerId aborts what was open and makes the older identity stale."""
    transactions.own(opened.transactional_id)
    for commit in (True, False):
        with pytest.raises(EpochStale):
            end(transactions, opened, commit)
    assert values(broker.bootstrap_servers, topic) == []


def test_after_the_brokers_timeout_nothing_can_be_committed(
    broker, wire, transactions, transactional_id, topic
):
    """The broker aborts by itself; the commit is refused and none of the rows is visible."""
    identity = transactions.own(transactional_id, timeout_ms=3_000)
    write(wire, identity, blocks(topic, named("late", 3)))
    deadline = time.monotonic() + 30
    # While it is still being aborted a commit is answered CONCURRENT_TRANSACTIONS: a doubt.
    while describe_transaction(wire, transactional_id).state is not TransactionState.COMPLETE_ABORT:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    refusal = InvalidState if identity.version is TransactionVersion.V2 else EpochStale
    with pytest.raises(refusal):
        transactions.commit(identity)
    assert values(broker.bootstrap_servers, topic) == []


def test_versions_must_not_be_mixed(kafka, connect, transactional_id, make_topic):
    """A commit under one version, asked again under the other, looks like a rival or a mistake."""
    wire, topic = connect(kafka.bootstrap_servers), make_topic(kafka)
    transactions = Transactions(wire)
    second = transactions.own(transactional_id)
    write(wire, second, blocks(topic, named("row", 1)))
    transactions.commit(second)
    with pytest.raises(EpochStale):
        transactions.commit(replace(second, version=TransactionVersion.V1))
