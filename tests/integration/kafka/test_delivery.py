"""A large batch over two connections: each partition by one sender, and none goes on alone."""

import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.readers import read, values
from support.rows import blocks, now_ms
from support.waiting import wait_until

from twophase.errors import EpochStale
from twophase.kafka import delivery
from twophase.kafka.delivery import places_of, send_shared
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode
from twophase.kafka.sender import Sender
from twophase.kafka.summaries import summarise
from twophase.kafka.transactions import Transactions
from twophase.sink import BlocksGone
from twophase.verify.proxy import ApiKey, KafkaProxy

PARTITIONS, ROWS = 5, 1_000
# More than a batch needs to go over two connections.
VALUE_BYTES = 20_000


@pytest.fixture
def topic(broker, make_topic):
    return make_topic(broker, partitions=PARTITIONS)


@pytest.fixture
def parts(topic):
    """Blocks for all partitions, of rows that no codec makes smaller."""
    noise = np.random.default_rng(1).bytes(VALUE_BYTES)
    table = pa.table(
        {
            "value": pa.array([b"%06d" % number + noise for number in range(ROWS)], pa.binary()),
            "partition": pa.array([number % PARTITIONS for number in range(ROWS)], pa.int32()),
        }
    )
    plan = EncodePlan({topic: PARTITIONS}, topic=topic)
    return list(encode(table, plan, now_ms=now_ms()))


@pytest.fixture
def senders(monkeypatch):
    """Which senders had blocks for each partition, as they come."""
    found = defaultdict(set)

    class Watched(Sender):
        def send(self, *group):
            for block in group:
                found[block.partition].add(self)
            super().send(*group)

    monkeypatch.setattr(delivery, "Sender", Watched)
    return found


def of(parts, places):
    """Return those blocks that are for these partitions."""
    return (part for part in parts if (part.topic, part.partition) in places)


def test_each_partition_has_one_sender(
    broker, wire, transactions, transactional_id, topic, parts, senders, monkeypatch
):
    """Two senders, each with connections of its own; every row once, in order."""
    # A batch does not wait longer than it gains; here the second connection is the point.
    monkeypatch.setattr("twophase.kafka.wire._BESIDE_MS", 60_000)
    identity, summary = transactions.own(transactional_id), summarise(parts)
    sent = send_shared(wire, identity, summary, lambda places: of(parts, places), {})
    assert sent == summary
    assert sorted(senders) == list(range(PARTITIONS))
    assert all(len(found) == 1 for found in senders.values())
    by = {sender for found in senders.values() for sender in found}
    assert len({sender._wire for sender in by}) == len(by) == 2
    transactions.commit(identity)
    rows = defaultdict(list)
    for row in read(broker.bootstrap_servers, topic):
        rows[row.partition].append(int(row.value[:6]))
    assert rows == {at: list(range(at, ROWS, PARTITIONS)) for at in range(PARTITIONS)}


def test_a_small_batch_has_one_sender(wire, transactions, transactional_id, topic, senders):
    """A second connection would cost more than it saves."""
    small = [*blocks(topic, [b"a"], partition=0), *blocks(topic, [b"b"], partition=1)]
    identity, summary = transactions.own(transactional_id), summarise(small)
    assert send_shared(wire, identity, summary, lambda places: of(small, places), {}) == summary
    assert len({sender for found in senders.values() for sender in found}) == 1


@pytest.mark.parametrize("harmed", [0, 1])
def test_where_one_fails_the_other_ends(
    harmed, broker, wire, transactions, transactional_id, topic, parts
):
    """What one half raises is what the caller gets, and nobody sends any more by then."""
    identity, summary = transactions.own(transactional_id), summarise(parts)
    before = set(threading.enumerate())
    harm = places_of(summary)[harmed]

    def blocks_of(places):
        for at, part in enumerate(of(parts, places)):
            if harm in places and at == 3:
                raise BlocksGone("a file is gone")
            yield part

    with pytest.raises(BlocksGone, match="a file is gone"):
        send_shared(wire, identity, summary, blocks_of, {})
    assert set(threading.enumerate()) <= before
    transactions.abort(identity)
    assert values(broker.bootstrap_servers, topic) == []


def test_without_a_second_connection_all_go_over_the_first(
    broker, connect, transactional_id, topic, parts, senders, caplog
):
    """Nobody answers who connects anew: a warning, and the batch is sent all the same."""
    summary = summarise(parts)
    with KafkaProxy(broker.proxied) as proxy:
        far = connect(proxy.bootstrap_servers)
        transactions = Transactions(far)
        identity = transactions.own(transactional_id)
        open_now = proxy.connection_count
        unheard = proxy.on(ApiKey.API_VERSIONS).drop(times=None)
        assert send_shared(far, identity, summary, lambda places: of(parts, places), {}) == summary
        proxy.clear()
        assert unheard.count > 0
        wait_until(lambda: proxy.connection_count == open_now)
        assert len({sender for found in senders.values() for sender in found}) == 1
        assert caplog.text.count("no second connection") == 1
        transactions.commit(identity)
        far.close()
    assert len(values(broker.bootstrap_servers, topic)) == ROWS


def test_a_wire_that_is_closed_in_mid_send_closes_its_sockets(
    kafka, connect, transactional_id, make_topic
):
    """The broker stands still and takes no more bytes; those that wait are dropped."""
    wire = connect(kafka.bootstrap_servers)
    topic, identity = make_topic(kafka), Transactions(wire).own(transactional_id)
    part = blocks(topic, [b"x" * 900_000])[0]
    before = sockets()
    second = connect(kafka.bootstrap_servers)
    sender = Sender(second, identity)
    sender.send(part)
    sender.flush()
    kafka.nodes[0].pause()
    try:
        for _ in range(10):
            sender.send(part)
        assert sockets() - before
        second.close()
        assert sockets() <= before
    finally:
        kafka.nodes[0].resume()
    Transactions(wire).abort(identity)


def sockets():
    """The sockets that this process has open, by numbers of their own; others may be closed."""
    found = set()
    for name in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(name.readlink().name)
    return {name for name in found if name.startswith("socket:")}


def test_a_newer_owner_ends_both(broker, wire, transactions, transactional_id, topic, parts):
    """A newer owner takes the id in mid-send: both halves are refused, and no row is seen."""
    identity, summary = transactions.own(transactional_id), summarise(parts)

    def blocks_of(places):
        for at, part in enumerate(of(parts, places)):
            if at == 5 and places[0] == places_of(summary)[0]:
                transactions.own(transactional_id)
            yield part

    with pytest.raises(EpochStale):
        send_shared(wire, identity, summary, blocks_of, {})
    assert values(broker.bootstrap_servers, topic) == []
