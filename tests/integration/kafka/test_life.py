"""The whole life of a transaction by handle, checked on the broker's own state."""

import pytest
from support.readers import values
from support.rows import blocks, named
from support.writing import write

from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.kafka.admin import TransactionState, describe_transaction, list_transactions
from twophase.kafka.identity import TopicPartition, TransactionVersion
from twophase.kafka.offsets import (
    METADATA_LIMIT_BYTES,
    CommittedOffset,
    read_offsets,
    write_offsets,
)
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire


@pytest.fixture
def topic(broker, make_topic):
    return make_topic(broker, partitions=2)


def following(transactions, identity, ended):
    """The identity of the next transaction, as each version gives it."""
    return ended or transactions.reacquire(identity)


def test_the_version_is_the_brokers(wire, broker):
    """4.3.1 finalises version 2; 3.9.2 knows only version 1."""
    expected = TransactionVersion.V2 if broker.version == "4.3.1" else TransactionVersion.V1
    assert wire.transaction_version() is expected


def test_many_transactions_in_a_row(wire, broker, transactions, transactional_id, topic):
    """Committed ones are visible in order, aborted ones never, and nothing is left open."""
    identity, expected = transactions.own(transactional_id), []
    for number in range(12):
        rows = named(f"batch{number:02d}", 3)
        write(wire, identity, blocks(topic, rows))
        if number % 3 == 2:
            ended = transactions.abort(identity)
        else:
            ended = transactions.commit(identity)
            expected += rows
        identity = following(transactions, identity, ended)
    assert values(broker.bootstrap_servers, topic) == expected
    assert len(values(broker.bootstrap_servers, topic, committed=False)) == 36
    assert (
        list_transactions(wire, prefix=transactional_id, states=(TransactionState.ONGOING,)) == ()
    )


def test_describe_and_list_show_what_is_open(wire, transactions, transactional_id, topic):
    """The coordinator names the identity, its partitions and the time limit."""
    identity = transactions.own(transactional_id, timeout_ms=40_000)
    write(wire, identity, blocks(topic, named("row", 1), partition=1))
    seen = describe_transaction(wire, transactional_id)
    assert (seen.state, seen.producer_id, seen.epoch, seen.timeout_ms) == (
        TransactionState.ONGOING,
        identity.producer_id,
        identity.epoch,
        40_000,
    )
    assert seen.partitions == {TopicPartition(topic, 1)}
    assert seen.started_ms > 0
    (listed,) = list_transactions(wire, prefix=transactional_id)
    assert (listed.producer_id, listed.state) == (identity.producer_id, TransactionState.ONGOING)
    transactions.abort(identity)


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_share_the_fate_of_the_rows(
    commit, wire, broker, transactions, transactional_id, topic
):
    """Marker and source offsets become visible with the rows, or not at all."""
    here = TopicPartition(topic, 0)
    identity = transactions.own(transactional_id)
    write(wire, identity, blocks(topic, named("row", 3)))
    for group in ("marker", "source"):
        group_id = f"{group}-{transactional_id}"
        write_offsets(wire, identity, group_id, {here: CommittedOffset(3, f"batch 7 of {group}")})
    (transactions.commit if commit else transactions.abort)(identity)
    for group in ("marker", "source"):
        found = read_offsets(wire, f"{group}-{transactional_id}", [here, TopicPartition(topic, 1)])
        assert found == ({here: CommittedOffset(3, f"batch 7 of {group}")} if commit else {})
    assert len(values(broker.bootstrap_servers, topic)) == (3 if commit else 0)


def test_a_marker_alone_is_a_transaction(wire, transactions, transactional_id, topic):
    """A batch without rows still leaves its marker."""
    here, identity = TopicPartition(topic, 0), transactions.own(transactional_id)
    write_offsets(wire, identity, transactional_id, {here: CommittedOffset(0, "empty batch")})
    transactions.commit(identity)
    assert read_offsets(wire, transactional_id, [here]) == {here: CommittedOffset(0, "empty batch")}


def test_a_marker_that_is_too_long_is_refused_before_it_is_sent(
    wire, transactions, transactional_id, topic
):
    """4,096 bytes pass, one more is refused by name and the transaction stays usable."""
    here, identity = TopicPartition(topic, 0), transactions.own(transactional_id)
    longest = CommittedOffset(1, "x" * METADATA_LIMIT_BYTES)
    with pytest.raises(ConfigurationError, match="4097 bytes"):
        write_offsets(
            wire, identity, transactional_id, {here: CommittedOffset(1, "é" + "x" * 4095)}
        )
    write_offsets(wire, identity, transactional_id, {here: longest})
    transactions.commit(identity)
    assert read_offsets(wire, transactional_id, [here]) == {here: longest}


def test_a_time_limit_above_the_brokers_maximum_is_refused(transactions, transactional_id):
    """The setting, its value and the broker's word are in the sentence."""
    with pytest.raises(ConfigurationError, match=r"kafka\.transaction\.timeout\.ms is 900001"):
        transactions.own(transactional_id, timeout_ms=900_001)


def test_no_broker_there_is_one_clear_sentence():
    """The addresses and the wait are named; nothing hangs."""
    options = KafkaOptions.parse(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.max.block.ms": 300}
    )
    with pytest.raises(StoreUnavailable, match=r"kafka\.bootstrap\.servers=127\.0\.0\.1:1"):
        Wire(options)
