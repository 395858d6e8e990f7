"""Clients of this package for the tests of its Kafka half."""

import itertools
from contextlib import ExitStack
from uuid import uuid4

import pytest
from support.kafka_loops import KafkaLoop

from twophase.kafka.options import KafkaOptions
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire


@pytest.fixture
def connect():
    """A factory of wires: `connect(bootstrap_servers, **options)`; dots are underscores there."""
    with ExitStack() as stack:

        def open_wire(bootstrap_servers, **options):
            given = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
            given["kafka.bootstrap.servers"] = bootstrap_servers
            return stack.enter_context(Wire(KafkaOptions.parse(given)))

        yield open_wire


@pytest.fixture(params=["kafka", "kafka39"])
def broker(request):
    """Both protocol versions: Kafka 4.3.1 speaks version 2, 3.9.2 only version 1."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def wire(broker, connect):
    """A connection to the broker under test."""
    return connect(broker.bootstrap_servers)


@pytest.fixture
def transactional_id():
    """An id that no other test uses."""
    return f"tx-{uuid4().hex[:12]}"


@pytest.fixture
def transactions(wire):
    """The transactions of the broker under test."""
    return Transactions(wire)


@pytest.fixture
def make_loop(make_topic, tmp_path):
    """Make a sink in task scope whose drivers are processes; its batch 0 is written."""
    numbers = itertools.count()

    def make(broker, **options):
        folder = tmp_path / f"loop-{next(numbers)}"
        loop = KafkaLoop(broker, make_topic(broker), folder, options)
        code, said = loop.run(1)
        assert code == 0, said
        return loop

    return make
