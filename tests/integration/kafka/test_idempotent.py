"""Writing outside of transactions: idempotent senders, and senders that may lose, on brokers."""

import threading
import time

import pytest
from confluent_kafka.admin import AdminClient
from support.readers import values
from support.rows import blocks, named
from support.waiting import wait_until
from support.writing import send_all

from twophase.errors import (
    CommitRejected,
    EpochStale,
    ProtocolViolation,
    RowRejected,
    StoreUnavailable,
)
from twophase.kafka.admin import list_transactions
from twophase.kafka.counts import PartitionCounts, ask_partition_counts
from twophase.kafka.idempotent import ProducerIds, idempotent_producer
from twophase.kafka.identity import NOBODY, Producer, TopicPartition
from twophase.kafka.lossy import LossySender
from twophase.kafka.outlets import Delivery, LossyOutlet, SureOutlet
from twophase.kafka.sender import Sender
from twophase.verify.proxy import ApiKey, KafkaProxy

ROWS = [value for part in range(12) for value in named(f"{part:02d}", 50)]


@pytest.fixture
def proxy(broker):
    """Everything that bootstraps here goes through the proxy."""
    with KafkaProxy(broker.proxied) as running:
        yield running


@pytest.fixture
def far(proxy, connect):
    """A wire through the proxy, with waits short enough for a test."""
    return connect(proxy.bootstrap_servers, request_timeout_ms=500, max_block_ms=10_000)


@pytest.fixture
def topic(broker, make_topic):
    return make_topic(broker, partitions=2)


def twelve_blocks(topic):
    return [block for part in range(12) for block in blocks(topic, named(f"{part:02d}", 50))]


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("act", ["drop", "cut"])
def test_a_lost_produce_is_written_once(act, direction, proxy, far, broker, topic):
    """Without a transaction too: every row once, in order, whichever frame is lost."""
    caught = getattr(proxy.on(ApiKey.PRODUCE, direction), act)(times=2)
    (done,) = send_all(Sender(far, idempotent_producer(far)), twelve_blocks(topic))
    assert (caught.count, done.records) == (2, 600)
    assert values(broker.bootstrap_servers, topic) == ROWS


def test_a_broker_that_is_killed_and_comes_back(private_kafka, connect, make_topic):
    """It learns the sequence numbers again from its log: every row once, in order."""
    cluster = private_kafka()
    topic, wire = make_topic(cluster), connect(cluster.bootstrap_servers)
    sender = Sender(wire, idempotent_producer(wire))
    parts = twelve_blocks(topic)
    send_all(sender, parts[:4])
    sender.send(parts[4])
    cluster.nodes[0].kill()
    for part in parts[5:]:
        sender.send(part)
    cluster.nodes[0].restart()
    (done,) = sender.flush()
    assert done.records == 600
    assert values(cluster.bootstrap_servers, topic) == ROWS


def test_without_a_producer_id_a_lost_answer_doubles_rows(proxy, connect, broker, topic):
    """The same loss without the defence: the broker cannot tell a repeat from a new block."""
    proxy.on(ApiKey.PRODUCE, "response").cut(times=2)
    # Patient: a repeat by the clock would double more.
    (done,) = send_all(Sender(connect(proxy.bootstrap_servers), NOBODY), twelve_blocks(topic))
    assert done.records == 600
    found = values(broker.bootstrap_servers, topic)
    assert (len(found), sorted(set(found))) == (700, ROWS)
    assert found[::50] == sorted(found[::50])


def test_rows_are_visible_at_once_and_no_transactional_id_is_left(wire, broker, topic):
    """Readers of both isolation levels see what is acknowledged; the coordinator knows nothing."""
    before = {found.transactional_id for found in list_transactions(wire)}
    sender = Sender(wire, idempotent_producer(wire))
    send_all(sender, blocks(topic, named("row", 5)))
    for committed in (True, False):
        assert values(broker.bootstrap_servers, topic, committed=committed) == named("row", 5)
    send_all(sender, blocks(topic, named("then", 5)))
    assert len(values(broker.bootstrap_servers, topic)) == 10
    assert {found.transactional_id for found in list_transactions(wire)} == before


def test_each_sender_of_a_process_has_an_epoch_of_its_own(wire, broker, topic):
    """One producer id for all; the second sender's rows are new to the broker, not repeats."""
    ids = ProducerIds(wire)
    first, second = ids.following(), ids.following()
    assert second == Producer(first.producer_id, first.epoch + 1)
    send_all(Sender(wire, first), blocks(topic, named("a", 5)))
    send_all(Sender(wire, second), blocks(topic, named("b", 5)))
    assert values(broker.bootstrap_servers, topic) == named("a", 5) + named("b", 5)


def test_under_the_same_epoch_a_second_sender_loses_rows(wire, broker, topic):
    """Without the defence: the broker takes its blocks for repeats and acknowledges them."""
    producer = idempotent_producer(wire)
    send_all(Sender(wire, producer), blocks(topic, named("a", 5)))
    (done,) = send_all(Sender(wire, producer), blocks(topic, named("b", 5)))
    assert done.records == 5
    assert values(broker.bootstrap_servers, topic) == named("a", 5)


def test_a_sender_is_fenced_by_the_next_one(wire, broker, topic):
    """What an older sender still has to send is refused, and it stops."""
    ids = ProducerIds(wire)
    older = Sender(wire, ids.following())
    send_all(older, blocks(topic, named("a", 5)))
    send_all(Sender(wire, ids.following()), blocks(topic, named("b", 5)))
    with pytest.raises(EpochStale):
        send_all(older, blocks(topic, named("late", 5)))
    assert values(broker.bootstrap_servers, topic) == named("a", 5) + named("b", 5)


def test_when_the_epochs_run_out_a_new_id_is_asked_for(wire, broker, topic):
    """The highest epoch is written with; after it comes another producer id."""
    ids = ProducerIds(wire)
    first = ids.following()
    ids._last = Producer(first.producer_id, 2**15 - 2)
    highest, fresh = ids.following(), ids.following()
    assert (highest.producer_id, highest.epoch) == (first.producer_id, 2**15 - 1)
    assert (fresh.producer_id != first.producer_id, fresh.epoch) == (True, 0)
    send_all(Sender(wire, highest), blocks(topic, named("a", 5)))
    send_all(Sender(wire, fresh), blocks(topic, named("b", 5)))
    assert len(values(broker.bootstrap_servers, topic)) == 10


@pytest.mark.parametrize("direction", ["request", "response"])
def test_a_lost_question_for_an_id_is_asked_again(direction, proxy, far):
    """Whether it is lost before or after the broker gave one out."""
    caught = proxy.on(ApiKey.INIT_PRODUCER_ID, direction).cut()
    found = idempotent_producer(far)
    assert (caught.count, found.producer_id >= 0, found.epoch) == (1, True, 0)


def test_a_gap_at_the_front_stops_the_sender(wire, broker, topic):
    """The broker misses what it had acknowledged: the task must fail, and be run again."""
    sender = Sender(wire, idempotent_producer(wire))
    send_all(sender, blocks(topic, named("first", 3)))
    sender._lanes[TopicPartition(topic, 0)]._next_sequence += 5
    with pytest.raises(CommitRejected, match="misses records"):
        send_all(sender, blocks(topic, named("second", 3)))
    assert values(broker.bootstrap_servers, topic) == named("first", 3)


def test_a_producer_id_needs_all_replicas(kafka, connect):
    """An acknowledged block that a new leader does not have would break its sequence."""
    wire = connect(kafka.bootstrap_servers)
    with pytest.raises(ProtocolViolation, match="needs acks=all"):
        Sender(wire, idempotent_producer(wire), acks=1)


def test_a_sure_outlet_reports_what_each_partition_has(wire, broker, topic):
    """It connects at the first block; its count is what a reader finds."""
    outlet = SureOutlet(lambda: wire, lambda: idempotent_producer(wire))
    parts = [*blocks(topic, named("a", 5)), *blocks(topic, named("b", 3), partition=1)]
    for part in parts:
        outlet.send(part)
    sizes = [part.size_bytes for part in parts]
    assert outlet.finish() == [
        Delivery(topic, 0, 5, sizes[0], 0),
        Delivery(topic, 1, 3, sizes[1], 0),
    ]
    assert values(broker.bootstrap_servers, topic) == named("a", 5) + named("b", 3)


def test_a_sure_outlet_raises_what_a_lossy_one_counts(wire, broker, make_topic):
    """The topic refuses one block of three: raised, or counted while the others are written."""
    topic = make_topic(broker, max_message_bytes=1_000)
    parts = [*blocks(topic, [b"a"]), *blocks(topic, [b"x" * 3_000] * 2), *blocks(topic, [b"b"])]
    sure = SureOutlet(lambda: wire, lambda: idempotent_producer(wire))
    with pytest.raises(RowRejected):
        deliver(sure, parts)
    before = len(values(broker.bootstrap_servers, topic))
    lossy = LossyOutlet(lambda: wire, 1)
    (found,) = deliver(lossy, parts)
    assert (found.rows, found.failed_rows) == (2, 2)
    assert "MESSAGE_SIZE_TOO_LARGE" in str(lossy.error)
    assert values(broker.bootstrap_servers, topic)[before:] == [b"a", b"b"]


@pytest.mark.parametrize("lossy", [False, True])
def test_a_closed_outlet_sends_nothing_more(lossy, wire, broker, topic):
    """A task that failed leaves no sender behind that goes on writing in its worker."""
    outlet = (
        LossyOutlet(lambda: wire, 1)
        if lossy
        else SureOutlet(lambda: wire, lambda: idempotent_producer(wire))
    )
    outlet.close()
    deliver(outlet, blocks(topic, named("a", 3)))
    outlet.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        outlet._sender.send(blocks(topic, named("b", 3))[0])
    assert values(broker.bootstrap_servers, topic) == named("a", 3)


def deliver(outlet, parts):
    for part in parts:
        outlet.send(part)
    return outlet.finish()


def test_a_lossy_sender_asks_the_leader_only(proxy, far, topic):
    """acks=1, no transactional id, no producer id: read from the frame on the wire."""
    caught = proxy.on(ApiKey.PRODUCE, "request").capture()
    deliver(LossyOutlet(lambda: far, 1), blocks(topic, named("row", 3)))
    payload = caught.wait_caught().payload
    name = payload.index(topic.encode())
    # Null transactional id, acks, timeout, one topic (counts are one higher), length of its name.
    head = bytes([0, 0, 1]) + (500).to_bytes(4, "big") + bytes([2, len(topic) + 1])
    assert payload[name - len(head) : name] == head
    # Magic 2 is followed by checksum, attributes, last delta, two times, then who writes.
    batch = payload.index(bytes([0xFF, 0xFF, 0xFF, 0xFF, 2]), name)
    assert payload[batch + 31 : batch + 45] == b"\xff" * 14


def test_a_partition_that_is_gone_is_abandoned_and_the_others_written(broker, connect, make_topic):
    """A deleted topic costs one delivery timeout; its later rows are counted without a wait."""
    # Nothing is repeated by the clock before its time is up: without a producer id it would double.
    wire = connect(broker.bootstrap_servers, delivery_timeout_ms=5_000, request_timeout_ms=5_000)
    gone, here = make_topic(broker), make_topic(broker)
    outlet = LossyOutlet(lambda: wire, 1)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([gone])[gone].result(30)
    wait_until(lambda: gone not in admin.list_topics(timeout=30).topics)
    for part in (*blocks(gone, named("a", 3)), *blocks(here, named("b", 3))):
        outlet.send(part)
    outlet._sender.drain()
    found = deliver(outlet, (*blocks(gone, named("c", 4)), *blocks(here, named("d", 4))))
    by_topic = {part.topic: (part.rows, part.failed_rows) for part in found}
    assert by_topic == {gone: (0, 7), here: (7, 0)}
    assert f"{gone}-0: no block was acknowledged for 5000 ms" in str(outlet.error)
    assert values(broker.bootstrap_servers, here) == named("b", 3) + named("d", 4)


def test_a_lossy_sender_waits_three_times_at_most(broker, connect):
    """Then it stops, and the rest is counted at once."""
    wire = connect(broker.bootstrap_servers, delivery_timeout_ms=400, request_timeout_ms=300)
    outlet = LossyOutlet(lambda: wire, 1)
    for number in range(3):
        outlet.send(blocks(f"no-such-{number}", named("a", 2))[0])
        if number < 2:
            outlet._sender.drain()
    found = deliver(outlet, blocks("no-such-3", named("a", 2)))
    assert sum(part.failed_rows for part in found) == 8
    assert outlet._stopped
    outlet.send(blocks("no-such-4", named("a", 2))[0])
    assert TopicPartition("no-such-4", 0) not in outlet._sender._lanes


def test_a_late_answer_of_an_abandoned_partition_changes_nothing(proxy, broker, connect, topic):
    """The block was counted as failed; its answer comes after that, and the sender goes on."""
    wire = connect(proxy.bootstrap_servers, delivery_timeout_ms=3_000, request_timeout_ms=3_000)
    sender = LossySender(wire, 1)
    sender.send(blocks(topic, named("a", 3), partition=1)[0])
    sender.drain()
    held = proxy.on(ApiKey.PRODUCE, "response").hold(times=2)

    def cut_later():
        held.wait_caught(60)
        # The second request is asked later, and so its time is not up when the block's is.
        time.sleep(1.5)
        proxy.cut_all()

    cutting = threading.Thread(target=cut_later)
    cutting.start()
    sender.send(blocks(topic, named("late", 3))[0])
    sender.drain()
    cutting.join(60)
    assert sender.confirmed()[TopicPartition(topic, 0)] == (0, 0, 0)
    held.release()
    sender.send(blocks(topic, named("b", 3), partition=1)[0])
    sender.drain()
    assert sender.confirmed()[TopicPartition(topic, 0)] == (0, 0, 0)
    assert sender.confirmed()[TopicPartition(topic, 1)][1] == 6
    found = values(broker.bootstrap_servers, topic)
    assert set(found) == {*named("a", 3), *named("late", 3), *named("b", 3)}


def test_partition_counts_are_looked_up_when_asked_for(proxy, far, make_topic, broker):
    """Once for each topic, again after a lost answer; a topic that is not there is named."""
    first, second = make_topic(broker, partitions=3), make_topic(broker)
    assert ask_partition_counts(far, [first, second]) == {first: 3, second: 1}
    counts = PartitionCounts(lambda: far)
    assert (len(counts), first in counts, counts[first], list(counts)) == (0, True, 3, [first])
    before = proxy.passed(ApiKey.METADATA)
    assert (counts[first], proxy.passed(ApiKey.METADATA)) == (3, before)
    caught = proxy.on(ApiKey.METADATA, "response").cut()
    assert counts[second] == 1
    assert caught.count == 1
    with pytest.raises(Exception, match="topic 'no-such' does not exist"):
        counts["no-such"]


def test_topics_that_rows_name_need_not_exist(proxy, far, make_topic, broker):
    """They are asked for together, and only the first that is missing is waited for long."""
    topic = make_topic(broker, partitions=3)
    counts = PartitionCounts(lambda: far, optional=True)
    counts.learn(["no-such", topic])
    assert (topic in counts, "no-such" in counts, list(counts)) == (True, False, [topic])
    before = proxy.passed(ApiKey.METADATA)
    counts.learn([f"no-such-{number}" for number in range(500)])
    assert "no-such-7" not in counts
    assert before + 2 <= proxy.passed(ApiKey.METADATA) <= before + 4
