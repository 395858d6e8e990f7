"""Brokers for the tests: two that are shared, and private ones that a test may hurt."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from hypothesis import HealthCheck, settings
from support.postgres import server_url
from support.waiting import wait_until

from twophase.embedded import EmbeddedKafka, ports
from twophase.kafka.wires import close_shared_wires

# A busy machine is slow, not wrong: no property fails by the clock.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any")


def pytest_configure() -> None:
    """Give each worker ports of its own: one that is kept for a proxy looks free to the others.

    And to the commands that tests run, which take theirs from 15000 on.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 4
    ports._FIRST, ports._LAST = 5_000 + 2_500 * worker, 7_500 + 2_500 * worker


@pytest.fixture(scope="module", autouse=True)
def no_connections_are_left() -> Iterator[None]:
    """Close what the process shares: it would look for gone brokers beside other tests."""
    yield
    close_shared_wires()


@pytest.fixture(scope="session")
def kafka() -> Iterator[EmbeddedKafka]:
    """One node of Kafka 4.3.1, shared by all tests: use unique topics and ids, do not hurt it."""
    with EmbeddedKafka() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka39() -> Iterator[EmbeddedKafka]:
    """One node of Kafka 3.9.2 (transaction.version 1 at most), shared by all tests."""
    with EmbeddedKafka(version="3.9.2") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The user's own server, or one that the tests start; shared: use unique tables and ids."""
    with server_url() as url:
        yield url


@pytest.fixture
def short_watch(monkeypatch: pytest.MonkeyPatch) -> str:
    """Let `transactions abort` watch for this many seconds; that it wants 30 is tested once."""
    monkeypatch.setattr("twophase.cli.transactions._WATCH_MIN_S", 1)
    return "1"


@pytest.fixture
def private_kafka() -> Iterator[Callable[..., EmbeddedKafka]]:
    """Start clusters for one test, which may kill, pause and restart their nodes."""
    with ExitStack() as stack:

        def start(*args: object, **kwargs: object) -> EmbeddedKafka:
            return stack.enter_context(EmbeddedKafka(*args, **kwargs))

        yield start


@pytest.fixture
def make_topic() -> Callable[..., str]:
    """Make topics: `make_topic(cluster, partitions=1, **configs)` returns a unique name.

    Underscores in the names of configs stand for dots: `min_insync_replicas=2`.
    """

    def make(cluster: EmbeddedKafka, partitions: int = 1, **configs: object) -> str:
        name = f"topic-{uuid4().hex[:12]}"
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topic = NewTopic(name, num_partitions=partitions, config=settings)
        admin.create_topics([topic])[name].result(timeout=30)
        wait_until(lambda: _led(admin, name, partitions), 60)
        return name

    return make


def _led(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Whether all leaders serve the topic, which comes after the answer that it was made."""
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    try:
        for answer in admin.list_offsets(asked).values():
            answer.result(timeout=30)
    except (KafkaException, TimeoutError):
        return False
    return True
