"""The sender against a real broker: order, backpressure, refusals, and never a false success."""

import socket
import threading
import time

import pyarrow as pa
import pytest
from kafka.protocol.admin import AlterClientQuotasRequest
from support.readers import read, values
from support.rows import blocks, named, now_ms
from support.waiting import wait_until
from support.writing import send_all, write

from twophase.errors import CommitRejected, RowRejected, StoreUnavailable
from twophase.kafka.identity import TopicPartition
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode
from twophase.kafka.sender import Sender
from twophase.kafka.transactions import Transactions


def test_rows_of_many_partitions_keep_their_order(
    wire, broker, transactions, transactional_id, make_topic
):
    """200 partitions, blocks of all sizes: every row once, in order per partition."""
    topic = make_topic(broker, partitions=200)
    identity = transactions.own(transactional_id)
    plan = EncodePlan({topic: 200}, topic=topic, block_bytes=2_000)
    table = pa.table(
        {
            "key": pa.array([str(number % 977).encode() for number in range(40_000)], pa.binary()),
            "value": pa.array(named("row", 40_000), pa.binary()),
        }
    )
    done = write(wire, identity, encode(table, plan, now_ms=now_ms()))
    assert sum(part.records for part in done) == 40_000
    transactions.commit(identity)
    rows = read(broker.bootstrap_servers, topic)
    assert sorted(row.value for row in rows) == named("row", 40_000)
    last = {}
    for row in rows:
        assert last.get(row.partition, b"") < row.value
        last[row.partition] = row.value


def test_the_acknowledgement_names_offsets(
    wire, broker, transactions, transactional_id, make_topic
):
    """What flush returns is where the rows lie in the log, as a reader finds them."""
    topic = make_topic(broker, partitions=2)
    identity = transactions.own(transactional_id)
    parts = [*blocks(topic, named("a", 5), partition=1), *blocks(topic, named("b", 7), partition=1)]
    (done,) = write(wire, identity, parts)
    assert (done.partition, done.blocks, done.records) == (TopicPartition(topic, 1), 2, 12)
    assert done.size_bytes == sum(block.size_bytes for block in parts)
    transactions.commit(identity)
    offsets = [row.offset for row in read(broker.bootstrap_servers, topic)]
    assert (done.first_offset, done.next_offset) == (offsets[0], offsets[-1] + 1)


def test_backpressure_is_by_bytes(kafka, connect, transactional_id, make_topic):
    """While the broker stands still, no more than kafka.buffer.memory is taken."""
    wire = connect(kafka.bootstrap_servers, buffer_memory=50_000)
    topic, identity = make_topic(kafka), Transactions(wire).own(transactional_id)
    part = blocks(topic, [b"x" * 1_000] * 10)[0]
    sender, taken = Sender(wire, identity), []

    def fill():
        for _ in range(20):
            sender.send(part)
            taken.append(part.size_bytes)

    kafka.nodes[0].pause()
    try:
        thread = threading.Thread(target=fill)
        thread.start()
        wait_until(lambda: taken, 30)
        # Time enough for more than may be taken.
        time.sleep(2)
        assert 0 < sum(taken) <= 50_000
    finally:
        kafka.nodes[0].resume()
    thread.join(30)
    (done,) = sender.flush()
    assert done.records == 200
    Transactions(wire).commit(identity)
    assert len(values(kafka.bootstrap_servers, topic)) == 200


def test_a_gap_in_the_sequence_stops_the_sender(
    wire, broker, transactions, transactional_id, make_topic
):
    """The broker refuses what does not follow; the sender stops and reports nothing as sent."""
    topic, identity = make_topic(broker), transactions.own(transactional_id)
    transactions.add_partitions(identity, [TopicPartition(topic, 0)])
    sender = Sender(wire, identity)
    send_all(sender, blocks(topic, named("first", 3)))
    sender._lanes[TopicPartition(topic, 0)]._next_sequence += 5
    with pytest.raises(CommitRejected, match="misses records"):
        send_all(sender, blocks(topic, named("second", 3)))
    with pytest.raises(CommitRejected):
        sender.flush()
    assert values(broker.bootstrap_servers, topic, committed=False) == named("first", 3)


def limit_rate(wire, client_id, bytes_per_s):
    """Give a client id a quota, which the broker enforces by muting its connections."""
    entry = AlterClientQuotasRequest.EntryData
    request = AlterClientQuotasRequest(
        entries=[
            entry(
                entity=[entry.EntityData(entity_type="client-id", entity_name=client_id)],
                ops=[entry.OpData(key="producer_byte_rate", value=bytes_per_s, remove=False)],
            )
        ],
        validate_only=False,
    )
    assert [row.error_code for row in wire.ask(request).entries] == [0]


def test_a_quota_slows_the_sender_and_loses_nothing(
    wire, broker, connect, transactional_id, make_topic, caplog
):
    """The broker mutes the connection again and again; every row arrives once and in order."""
    limit_rate(wire, transactional_id, 130_000.0)
    slow = connect(broker.bootstrap_servers, client_id=transactional_id)
    topic, identity = make_topic(broker, partitions=2), Transactions(slow).own(transactional_id)
    rows = [value + b"x" * 1_000 for value in named("row", 1_560)]
    parts = [part for at in range(0, 1_560, 40) for part in blocks(topic, rows[at : at + 40])]
    (done,) = write(slow, identity, parts)
    assert done.records == 1_560
    Transactions(slow).commit(identity)
    assert values(broker.bootstrap_servers, topic) == rows
    assert "throttled by broker" in caplog.text


def test_a_block_that_the_topic_refuses(wire, broker, transactions, transactional_id, make_topic):
    """The sentence names sizes and the settings to change, and the sender stays stopped."""
    topic = make_topic(broker, max_message_bytes=1_000)
    identity = transactions.own(transactional_id)
    transactions.add_partitions(identity, [TopicPartition(topic, 0)])
    sender = Sender(wire, identity)
    (part,) = blocks(topic, [b"x" * 3_000])
    with pytest.raises(RowRejected) as caught:
        send_all(sender, [part])
    for named_thing in (f"1 rows and {part.size_bytes} bytes", "max.message.bytes", topic):
        assert named_thing in str(caught.value)
    with pytest.raises(RowRejected):
        sender.send(part)
    assert values(broker.bootstrap_servers, topic, committed=False) == []


def test_a_topic_that_does_not_exist(kafka, connect, transactional_id):
    """A sender gives up after kafka.delivery.timeout.ms, and says for which partition."""
    wire = connect(kafka.bootstrap_servers, delivery_timeout_ms=800, request_timeout_ms=500)
    identity = Transactions(wire).own(transactional_id)
    sender = Sender(wire, identity)
    sender.send(blocks("no-such-topic", named("row", 1))[0])
    with pytest.raises(StoreUnavailable, match=r"no-such-topic-0.*800 ms"):
        sender.flush()


def test_an_interrupt_stops_the_sender(
    wire, transactions, transactional_id, broker, make_topic, monkeypatch
):
    """Ctrl-C in the middle of send: nothing hangs, and nothing is reported as sent."""
    topic, identity = make_topic(broker), transactions.own(transactional_id)
    sender = Sender(wire, identity)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sender, "_dispatch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sender.send(blocks(topic, named("row", 1))[0])
    with pytest.raises(StoreUnavailable, match="interrupted by KeyboardInterrupt"):
        sender.flush()


def test_a_closed_wire_is_noticed_at_once(kafka, connect, transactional_id, make_topic):
    """Nobody waits for the delivery timeout, or calls it unknown, when no answer can come."""
    wire, topic = connect(kafka.bootstrap_servers), make_topic(kafka)
    identity = Transactions(wire).own(transactional_id)
    sender = Sender(wire, identity)
    kafka.nodes[0].pause()
    try:
        sender.send(blocks(topic, named("row", 1))[0])
        wire.close()
    finally:
        kafka.nodes[0].resume()
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="closed"):
        sender.flush()
    with pytest.raises(StoreUnavailable, match="closed"):
        Transactions(wire).commit(identity)
    # Half of what a request waits for its answer, which is the shortest of its timeouts.
    assert time.monotonic() - began < 15


def test_a_peer_that_accepts_and_says_nothing(connect):
    """Plain or TLS, the wait is bounded and the address is named."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        limits = {
            "max_block_ms": 1_500,
            "request_timeout_ms": 500,
            "socket_connection_setup_timeout_ms": 500,
            "socket_connection_setup_timeout_max_ms": 500,
        }
        for protocol in ("PLAINTEXT", "SSL"):
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match=address):
                connect(address, security_protocol=protocol, **limits)
            assert time.monotonic() - began < 10


def test_a_closed_sender_refuses(wire, transactions, transactional_id, broker, make_topic):
    """After close nothing is taken and nothing is reported."""
    topic, identity = make_topic(broker), transactions.own(transactional_id)
    sender = Sender(wire, identity)
    sender.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        sender.send(blocks(topic, named("row", 1))[0])
    with pytest.raises(StoreUnavailable, match="closed"):
        sender.flush()
