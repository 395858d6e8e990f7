"""A connection to the shared broker."""

import pytest

from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire


@pytest.fixture
def wire(kafka):
    """Open a connection for one test."""
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    with Wire(KafkaOptions.parse(options)) as opened:
        yield opened
