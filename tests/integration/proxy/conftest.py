from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.readers import wait_until_ended

from twophase.embedded import EmbeddedKafka
from twophase.verify.proxy import KafkaProxy


@pytest.fixture
def proxy(kafka: EmbeddedKafka) -> Iterator[KafkaProxy]:
    """Run a proxy before the shared broker; clients that bootstrap at it stay with it."""
    with KafkaProxy(kafka.proxied) as running:
        yield running


@pytest.fixture
def written(kafka: EmbeddedKafka) -> Callable[[str], list[bytes]]:
    """Read, past the proxy, every committed value of partition 0 of a topic."""

    def read(topic: str) -> list[bytes]:
        # EndTxn answers before readers see what it has ended.
        wait_until_ended(kafka.bootstrap_servers)
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": f"reader-of-{topic}",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        try:
            for _ in range(10_000):
                message = consumer.poll(10)
                assert message is not None
                if message.error():
                    break
                values.append(message.value())
        finally:
            consumer.close()
        return values

    return read
