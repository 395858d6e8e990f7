"""What a reader of another library (librdkafka) sees in a topic."""

import time
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient
from kafka.errors import CoordinatorLoadInProgressError


@dataclass(frozen=True)
class Row:
    """One record as it was read."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def read(bootstrap_servers, topic, *, committed=True, timeout_s=30.0):
    """Return every row of a topic, in offset order per partition, up to its present end.

    With `committed`, the end is the last stable offset: an open transaction hides what follows it.
    Transactions that are being ended are waited for, since EndTxn answers before readers see it.
    """
    if committed:
        wait_until_ended(bootstrap_servers, timeout_s)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        return _drain(consumer, topic, partitions(bootstrap_servers, topic), timeout_s)
    finally:
        consumer.close()


def wait_until_ended(bootstrap_servers, timeout_s=30.0):
    """Wait until no transaction of the cluster is between its decision and its last partition."""
    admin, deadline = (
        KafkaAdminClient(bootstrap_servers=bootstrap_servers),
        time.monotonic() + timeout_s,
    )
    try:
        while _ending(admin):
            if time.monotonic() > deadline:
                raise TimeoutError("a transaction is still being ended")
            time.sleep(0.02)
    finally:
        admin.close()


def _ending(admin):
    try:
        found = admin.list_transactions(state_filters=["PrepareCommit", "PrepareAbort"])
    except CoordinatorLoadInProgressError:
        return True
    return any(found.values())


def _drain(consumer, topic, count, timeout_s):
    rows, ended, deadline = [], set(), time.monotonic() + timeout_s
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(count)])
    while len(ended) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: {count - len(ended)} partitions did not end in time")
        for message in consumer.consume(10_000, timeout=0.2):
            if message.error() is None:
                rows.append(_row(message))
                continue
            if message.error().code() != KafkaError._PARTITION_EOF:
                raise RuntimeError(str(message.error()))
            ended.add(message.partition())
    return sorted(rows, key=lambda row: (row.partition, row.offset))


def _row(message):
    return Row(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        message.timestamp()[1],
    )


def values(bootstrap_servers, topic, *, committed=True):
    """Return the values of a topic, in offset order per partition."""
    return [row.value for row in read(bootstrap_servers, topic, committed=committed)]


def partitions(bootstrap_servers, topic):
    """Return how many partitions a topic has."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    return len(admin.list_topics(topic, timeout=10).topics[topic].partitions)
