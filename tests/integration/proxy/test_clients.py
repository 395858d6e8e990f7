"""Real clients and a real broker, with the proxy between them."""

import contextlib
import struct
import threading
import uuid

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.protocol.producer import EndTxnResponse, ProduceResponse
from support.readers import wait_until_ended
from support.waiting import wait_until

from twophase.verify.proxy import ApiKey, KafkaProxy

INVALID_TXN_STATE, PRODUCER_FENCED = 48, 90


def confluent(proxy, **config: object) -> Producer:
    """Return an idempotent producer that gives up on a request soon and tries it again."""
    settings = {
        "bootstrap.servers": proxy.bootstrap_servers,
        "enable.idempotence": True,
        "linger.ms": 0,
        "request.timeout.ms": 1500,
        "socket.timeout.ms": 1500,
        "retry.backoff.ms": 50,
        "broker.address.family": "v4",
        "log_level": 0,
    }
    return Producer(settings | {key.replace("_", "."): value for key, value in config.items()})


def transactional(proxy, name: str, **config: object) -> KafkaProducer:
    """Return kafka-python's transactional producer, behind the proxy."""
    return KafkaProducer(
        bootstrap_servers=proxy.bootstrap_servers, transactional_id=name, linger_ms=0, **config
    )


@pytest.fixture
def name() -> str:
    """Name a transactional id of this test's own."""
    return f"proxy-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("act", ["drop", "cut"])
def test_lost_answer_makes_an_idempotent_producer_repeat(kafka, make_topic, proxy, written, act):
    """The broker has the record, the client does not know; it sends again, and one copy stays."""
    topic = make_topic(kafka)
    producer = confluent(proxy)
    lost = getattr(proxy.on(ApiKey.PRODUCE, "response"), act)()

    producer.produce(topic, b"once")
    assert producer.flush(30) == 0

    assert lost.count == 1
    assert proxy.passed(ApiKey.PRODUCE) >= 2
    assert written(topic) == [b"once"]


def test_duplicated_produce_is_written_once(kafka, make_topic, proxy, written):
    """The broker takes the second copy for a repeat; the client does not notice."""
    topic = make_topic(kafka)
    producer = confluent(proxy)
    doubled = proxy.on(ApiKey.PRODUCE).duplicate(times=None)

    for number in range(5):
        producer.produce(topic, b"%d" % number)
        assert producer.flush(30) == 0

    assert doubled.wait_answer().api_key is ApiKey.PRODUCE
    # The client is done with the answer to the first copy, while the second may be on its way.
    wait_until(lambda: proxy.passed(ApiKey.PRODUCE) >= 10)
    assert written(topic) == [b"0", b"1", b"2", b"3", b"4"]


def test_acks_0_passes_without_answer(kafka, make_topic, proxy, written):
    """Answers stay matched to requests on a connection that has unanswered ones."""
    topic = make_topic(kafka)
    producer = confluent(proxy, enable_idempotence=False, acks=0)
    for number in range(20):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0
    producer.list_topics(topic, timeout=10)

    wait_until(lambda: len(written(topic)) == 20)
    assert proxy.passed(ApiKey.PRODUCE, "response") == 0


def test_partition_stops_a_producer_and_heal_lets_it_go_on(kafka, make_topic, proxy, written):
    """Nothing arrives during the partition; afterwards everything does, once."""
    topic = make_topic(kafka)
    producer = confluent(proxy)
    producer.produce(topic, b"before")
    assert producer.flush(30) == 0
    proxy.partition()
    producer.produce(topic, b"during")
    assert producer.flush(1) == 1
    assert written(topic) == [b"before"]

    proxy.heal()
    assert producer.flush(30) == 0
    assert written(topic) == [b"before", b"during"]


def test_held_end_of_a_transaction_is_committed_before_the_client_knows(
    kafka, make_topic, proxy, written, name
):
    """The answer is held: readers see the rows while the producer still waits for its commit."""
    topic = make_topic(kafka)
    producer = transactional(proxy, name)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"row").get(30)
        held = proxy.on(ApiKey.END_TXN, "response").hold()
        commit = threading.Thread(target=producer.commit_transaction)
        commit.start()

        assert held.wait_caught(20).client_id == producer.config["client_id"]
        assert written(topic) == [b"row"]
        assert commit.is_alive()
        held.release()
        commit.join(20)
        assert not commit.is_alive()
    finally:
        proxy.clear()
        producer.close(timeout=5)


def test_late_produce_of_an_ended_transaction_is_refused(kafka, make_topic, proxy, written, name):
    """A zombie's copy comes over another connection after the commit: no transaction takes it."""
    topic = make_topic(kafka)
    producer = transactional(proxy, name)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        caught = proxy.on(ApiKey.PRODUCE).capture()
        producer.send(topic, b"row").get(30)
        producer.commit_transaction()
    finally:
        producer.close(timeout=5)

    request = caught.wait_caught()
    # While the broker is still ending the transaction it answers otherwise, and refuses too.
    wait_until_ended(kafka.bootstrap_servers)
    answer = ProduceResponse.decode(caught.deliver(), version=request.api_version, header=True)

    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == INVALID_TXN_STATE
    assert written(topic) == [b"row"]


def test_late_commit_of_a_fenced_producer_is_refused(kafka, make_topic, proxy, written, name):
    """Its EndTxn was on the way when the next owner came; delivered late, it changes nothing."""
    topic = make_topic(kafka)
    zombie = transactional(proxy, name, client_id="zombie", request_timeout_ms=30_000)
    dropped = proxy.on(ApiKey.END_TXN, where=lambda frame: frame.client_id == "zombie").drop(
        times=None
    )
    owner = transactional(proxy, name)
    try:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(topic, b"of the zombie").get(30)
        threading.Thread(target=_commit_in_vain, args=(zombie,), daemon=True).start()
        request = dropped.wait_caught(20)

        owner.init_transactions()
        owner.begin_transaction()
        owner.send(topic, b"of the owner").get(30)
        answer = EndTxnResponse.decode(
            dropped.deliver(request), version=request.api_version, header=True
        )
        owner.commit_transaction()
    finally:
        proxy.cut_all()
        zombie.close(timeout=1)
        owner.close(timeout=5)

    assert answer.error_code == PRODUCER_FENCED
    assert written(topic) == [b"of the owner"]


def _commit_in_vain(producer: KafkaProducer) -> None:
    # Whatever it raises: nobody uses this producer any more.
    with contextlib.suppress(Exception):
        producer.commit_transaction()


def test_clients_of_three_nodes_stay_with_the_proxy(private_kafka, make_topic):
    """Each broker advertises its port at the proxy, so no request goes past it."""
    cluster = private_kafka(nodes=3)
    topic = make_topic(cluster, partitions=6)
    seen: set[int] = set()
    with KafkaProxy(cluster.proxied) as proxy:
        proxy.on(ApiKey.PRODUCE, where=lambda frame: bool(seen.add(frame.port))).capture()
        producer = confluent(proxy)
        for partition in range(6):
            producer.produce(topic, b"row", partition=partition)
        assert producer.flush(30) == 0
        del producer

    assert seen == {node.proxy_advertised_port for node in cluster.nodes}


def test_large_blocks_pass(kafka, make_topic, proxy):
    """Requests of a megabyte go through whole, and the broker stores what was sent."""
    topic = make_topic(kafka, max_message_bytes=2_000_000)
    # No request is repeated by the clock: a question behind twenty megabytes waits for them.
    patient = {"request_timeout_ms": 60_000, "socket_timeout_ms": 60_000}
    producer = confluent(proxy, message_max_bytes=2_000_000, **patient)
    value = struct.pack(">q", 7) * 120_000
    for _ in range(20):
        producer.produce(topic, value)
    assert producer.flush(30) == 0

    assert proxy.passed(ApiKey.PRODUCE) == 20
