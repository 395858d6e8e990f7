"""Going on after doubt: what the broker tells an owner from a rival by, on both versions."""

import time

import pytest
from support.readers import values
from support.rows import blocks, named
from support.writing import write

from twophase.commit.recovery import LastTransaction
from twophase.errors import Fenced, StoreUnavailable
from twophase.kafka.admin import TransactionState, describe_transaction
from twophase.kafka.identity import Identity, TransactionVersion
from twophase.kafka.transactions import Claiming, Transactions
from twophase.verify.proxy import ApiKey, KafkaProxy


@pytest.fixture
def topic(broker, make_topic):
    return make_topic(broker)


@pytest.fixture
def owned(transactions, transactional_id):
    return transactions.own(transactional_id)


def commit_rows(wire, transactions, identity, topic, name):
    """Write and commit, which proves that the identity is whole."""
    write(wire, identity, blocks(topic, named(name, 2)))
    transactions.commit(identity)


def test_with_its_own_transaction_open(wire, broker, transactions, owned, topic):
    """An owner goes on, and what it had open is aborted."""
    write(wire, owned, blocks(topic, named("dropped", 2)))
    commit_rows(wire, transactions, transactions.reacquire(owned), topic, "kept")
    assert values(broker.bootstrap_servers, topic) == named("kept", 2)


def test_after_the_brokers_timeout(wire, broker, transactions, transactional_id, topic):
    """The broker's own timeout is not a rival: the owner goes on, nothing of before is visible."""
    identity = transactions.own(transactional_id, timeout_ms=3_000)
    write(wire, identity, blocks(topic, named("dropped", 2)))
    deadline = time.monotonic() + 30
    while describe_transaction(wire, transactional_id).state is TransactionState.ONGOING:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    commit_rows(wire, transactions, transactions.reacquire(identity), topic, "kept")
    assert values(broker.bootstrap_servers, topic) == named("kept", 2)


@pytest.mark.parametrize("opened", [True, False])
def test_after_an_idle_rival(opened, wire, transactions, owned, topic):
    """A rival that has taken the id fences its older owner for good."""
    if opened:
        write(wire, owned, blocks(topic, named("dropped", 2)))
    transactions.own(owned.transactional_id)
    for _ in range(2):
        with pytest.raises(Fenced):
            transactions.reacquire(owned)


def test_a_rivals_open_transaction_is_left_alone(wire, broker, transactions, owned, topic):
    """The older owner is fenced without hurting what the rival has open."""
    rival = transactions.own(owned.transactional_id)
    write(wire, rival, blocks(topic, named("rival", 2)))
    with pytest.raises(Fenced):
        transactions.reacquire(owned)
    transactions.commit(rival)
    assert values(broker.bootstrap_servers, topic) == named("rival", 2)


def test_without_looking_first_a_rivals_open_transaction_is_aborted(
    wire, broker, transactions, owned, topic
):
    """The damage without the look: InitProducerId is refused, and the rival's rows are gone."""
    rival = transactions.own(owned.transactional_id)
    write(wire, rival, blocks(topic, named("rival", 2)))
    with pytest.raises(Fenced):
        transactions._init(owned, None)
    assert describe_transaction(wire, owned.transactional_id).state in {
        TransactionState.PREPARE_ABORT,
        TransactionState.COMPLETE_ABORT,
    }
    assert values(broker.bootstrap_servers, topic) == []


def test_after_a_rivals_commit(wire, transactions, owned, topic):
    """A rival that has committed and is at rest fences its older owner too."""
    rival = transactions.own(owned.transactional_id)
    commit_rows(wire, transactions, rival, topic, "rival")
    with pytest.raises(Fenced):
        transactions.reacquire(owned)


@pytest.mark.parametrize("commit", [True, False])
def test_after_its_own_end(commit, wire, broker, transactions, owned, topic):
    """An owner that has not heard how its end went goes on, and the end stands."""
    write(wire, owned, blocks(topic, named("first", 2)))
    (transactions.commit if commit else transactions.abort)(owned)
    again = transactions.reacquire(owned)
    assert again == transactions.reacquire(owned), "an answer that got lost is given again"
    commit_rows(wire, transactions, again, topic, "second")
    expected = named("first", 2) if commit else []
    assert values(broker.bootstrap_servers, topic) == expected + named("second", 2)


def test_an_id_that_expired(wire, broker, transactions, transactional_id, topic):
    """The coordinator has forgotten the id: it is made anew, and whoever comes second is fenced."""
    forgotten = Identity(transactional_id, 1_000_000, 3, wire.transaction_version())
    again = transactions.reacquire(forgotten)
    commit_rows(wire, transactions, again, topic, "kept")
    with pytest.raises(Fenced):
        transactions.reacquire(forgotten)
    assert values(broker.bootstrap_servers, topic) == named("kept", 2)


def test_the_bare_form_takes_the_id_back_from_a_rival(wire, transactions, owned):
    """Why re-acquiring is not owning: the bare form fences the rightful new owner."""
    rival = transactions.own(owned.transactional_id)
    Transactions(wire).own(owned.transactional_id)
    with pytest.raises(Fenced):
        transactions.reacquire(rival)


@pytest.mark.parametrize("broker", ["kafka39"], indirect=True)
def test_an_epoch_that_was_raised_by_a_timeout_is_given_out_once(
    wire, transactions, transactional_id, topic
):
    """Two owners that ask with it are given one identity, so what re-acquiring gives is newer."""
    identity = transactions.own(transactional_id, timeout_ms=3_000)
    write(wire, identity, blocks(topic, named("dropped", 2)))
    deadline = time.monotonic() + 30
    while describe_transaction(wire, transactional_id).state is not TransactionState.COMPLETE_ABORT:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    raised = identity.successor(identity.producer_id, identity.epoch + 1)
    shared = transactions._init(raised, None)
    assert transactions._init(raised, None) == shared, "the damage: two owners, one identity"
    assert transactions._init(raised.successor(-1, -1), None).epoch > shared.epoch


def test_a_reacquire_that_was_cut_off_goes_on_where_it_stopped(
    broker, connect, wire, transactions, transactional_id, topic
):
    """The abort is done, the answers to InitProducerId are lost until it gives up."""
    with KafkaProxy(broker.proxied) as proxy:
        far = connect(proxy.bootstrap_servers, request_timeout_ms=1_000, max_block_ms=3_000)
        identity = transactions.own(transactional_id)
        write(wire, identity, blocks(topic, named("dropped", 2)))
        claiming = Claiming(identity)
        proxy.on(ApiKey.INIT_PRODUCER_ID, "response").cut(times=None)
        with pytest.raises(StoreUnavailable):
            Transactions(far).proceed(claiming)
        proxy.clear()
        if identity.version is TransactionVersion.V2:
            assert claiming.last is LastTransaction.ABORTED
            with pytest.raises(Fenced):
                transactions.reacquire(identity)
        commit_rows(wire, transactions, transactions.proceed(claiming), topic, "kept")
    assert values(broker.bootstrap_servers, topic) == named("kept", 2)


@pytest.mark.parametrize("broker", ["kafka39"], indirect=True)
def test_a_reacquire_after_the_timeout_that_was_cut_off(
    broker, connect, wire, transactions, transactional_id, topic
):
    """It goes on with the raised epoch; begun again with the old one, it is taken for fenced."""
    with KafkaProxy(broker.proxied) as proxy:
        far = connect(proxy.bootstrap_servers, request_timeout_ms=1_000, max_block_ms=3_000)
        identity = transactions.own(transactional_id, timeout_ms=3_000)
        write(wire, identity, blocks(topic, named("dropped", 2)))
        deadline = time.monotonic() + 30
        while describe_transaction(wire, transactional_id).state is TransactionState.ONGOING:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        claiming = Claiming(identity)
        proxy.on(ApiKey.INIT_PRODUCER_ID, "response").cut(times=None)
        with pytest.raises(StoreUnavailable):
            Transactions(far).proceed(claiming)
        proxy.clear()
        with pytest.raises(Fenced):
            transactions.reacquire(identity)
        commit_rows(wire, transactions, transactions.proceed(claiming), topic, "kept")
    assert values(broker.bootstrap_servers, topic) == named("kept", 2)
