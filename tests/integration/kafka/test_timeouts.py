"""A send that is slower than the transaction timeout: cut off by the broker, and nothing lost."""

import logging
import time
from uuid import uuid4

import pytest
from support.engines import RowsEngine
from support.readers import values
from support.rows import named

from twophase.commit.effects import Outcome
from twophase.commit.machine import Machine
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.errors import ConfigurationError
from twophase.kafka.admin import TransactionState, describe_transaction
from twophase.kafka.store import KafkaStore
from twophase.sink import write_batch
from twophase.watch import Watch


class SlowEngine(RowsEngine):
    """After its blocks are sent it waits until the broker has aborted the transaction."""

    slow_sends = 1

    def send(self, identity, summary):
        sent = super().send(identity, summary)
        if self.sent <= self.slow_sends:
            deadline = time.monotonic() + 20
            while describe_transaction(self.wire, identity.transactional_id).state in {
                TransactionState.ONGOING,
                TransactionState.PREPARE_ABORT,
            }:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        return sent


@pytest.fixture
def name():
    return SinkName(f"slow-{uuid4().hex[:10]}")


def write(store, engine, number=0, watch=None):
    batch = Batch("query", number, f"offsets-{number}", first_try=True)
    return write_batch(Machine(), uuid4().hex, batch, store, engine, watch=watch)


def test_a_send_that_is_cut_off_gets_more_time(broker, connect, make_topic, name, caplog):
    """It is warned of, sent again under ten times the timeout, and every row is there once."""
    topic = make_topic(broker)
    wire = connect(broker.bootstrap_servers, transaction_timeout_ms=3_000)
    store = KafkaStore(wire, name, topic)
    engine = SlowEngine(wire, topic, named("row", 5))
    watch = Watch(lambda: store.patience.warn_after_s, store.patience.warn)
    caplog.set_level(logging.WARNING, "twophase")
    finished = write(store, engine, watch=watch)
    assert (finished.outcome, finished.attempts) == (Outcome.COMMITTED, 2)
    assert describe_transaction(wire, name.transactional_id).timeout_ms == 30_000
    assert values(broker.bootstrap_servers, topic) == named("row", 5)
    assert "80 % of kafka.transaction.timeout.ms=3000" in caplog.text
    assert "sent again with 30000 ms" in caplog.text


def test_where_the_brokers_allow_no_more_it_is_refused(broker, connect, make_topic, name):
    """The settings are named, nothing is visible or open, and a quicker try then succeeds."""
    topic = make_topic(broker)
    wire = connect(broker.bootstrap_servers, transaction_timeout_ms=3_000)
    store = KafkaStore(wire, name, topic, longest_ms=3_000)
    engine = SlowEngine(wire, topic, named("row", 5))
    with pytest.raises(ConfigurationError, match=r"raise transaction.max.timeout.ms on the broker"):
        write(store, engine)
    assert describe_transaction(wire, name.transactional_id).state != TransactionState.ONGOING
    assert values(broker.bootstrap_servers, topic) == []
    assert write(store, engine).outcome is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, topic) == named("row", 5)
