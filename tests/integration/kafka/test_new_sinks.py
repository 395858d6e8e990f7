"""A sink that has no marker yet, on real brokers: new for as long as no row can be in the topic."""

from uuid import uuid4

import pytest
from kafka.admin import KafkaAdminClient
from support.engines import RowsEngine
from support.readers import values
from support.rows import named

from twophase.commit.effects import Outcome, WriteMarker
from twophase.commit.machine import Machine
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch, LastTransaction
from twophase.errors import MarkerMissing
from twophase.kafka.admin import TransactionState, describe_transaction
from twophase.kafka.store import KafkaStore
from twophase.sink import write_batch
from twophase.verify.proxy import ApiKey, KafkaProxy

NEVER_WAS, UNKNOWN = LastTransaction.NEVER_WAS, LastTransaction.UNKNOWN
ROWS = named("batch0", 3)


@pytest.fixture
def topic(broker, make_topic):
    return make_topic(broker)


@pytest.fixture
def name():
    return SinkName(f"sink-{uuid4().hex[:10]}")


@pytest.fixture
def start(wire, name, topic):
    """Start a driver."""
    return lambda via=None: KafkaStore(via or wire, name, topic)


def owned(store):
    """What a driver does first: look, and take the id."""
    store.describe_last()
    return store.own()


def write(wire, topic, store):
    """Write batch 0, which another run has planned."""
    batch = Batch("query", 0, "offsets-0", first_try=False)
    return write_batch(Machine(), "run", batch, store, RowsEngine(wire, topic, ROWS)).outcome


def test_drivers_that_die_after_taking_the_id(start, wire, broker, topic):
    """However many there were, the sink is still new."""
    for number in range(5):
        identity, last = owned(start())
        assert (identity.epoch, last) == (number, NEVER_WAS)
    assert write(wire, topic, start()) is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, topic) == ROWS


def test_a_driver_that_dies_with_its_first_transaction_open(start, wire, broker, topic, name):
    """Its first marker was not committed: the sink is still new."""
    store = start()
    identity, _ = owned(store)
    store.write_marker(identity, WriteMarker(identity, "query", -1, "", 0, 0))
    seen = describe_transaction(wire, name.transactional_id)
    assert seen.state is TransactionState.ONGOING
    assert write(wire, topic, start()) is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, topic) == ROWS


@pytest.mark.parametrize("direction", ["request", "response"])
def test_a_lost_first_message_and_then_a_death(direction, start, connect, broker, topic, wire):
    """InitProducerId is lost, or its answer; neither this start nor the next one is refused."""
    with KafkaProxy(broker.proxied) as proxy:
        far = connect(proxy.bootstrap_servers, request_timeout_ms=1_000, max_block_ms=8_000)
        proxy.on(ApiKey.INIT_PRODUCER_ID, direction).cut()
        assert owned(start(far))[1] is NEVER_WAS
    assert write(wire, topic, start()) is Outcome.COMMITTED


@pytest.mark.parametrize("owners", [0, 2])
def test_a_driver_that_hung_since_its_look(owners, start, wire, broker, topic, name):
    """Another writes batch 0 meanwhile and the marker is deleted: refused, not written again."""
    for _ in range(owners):
        owned(start())
    hung = start()
    hung.describe_last()
    assert write(wire, topic, start()) is Outcome.COMMITTED
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.delete_groups([name.marker_group])
    finally:
        admin.close()
    assert hung.own()[1] is UNKNOWN
    with pytest.raises(MarkerMissing):
        write(wire, topic, start())
    assert values(broker.bootstrap_servers, topic) == ROWS


def test_two_drivers_that_start_at_once(start):
    """Both have seen no id: the later one goes on; a third cannot know what the others did."""
    stores = [start() for _ in range(3)]
    for store in stores:
        store.describe_last()
    assert [store.own()[1] for store in stores] == [NEVER_WAS, NEVER_WAS, UNKNOWN]


def test_a_marker_that_another_has_just_written(start, wire, broker, topic, name):
    """Whoever finds it goes on under an identity whose time limit does not call the sink new."""
    first, second = start(), start()
    identity, _ = owned(first)
    second.describe_last()
    first.write_marker(identity, WriteMarker(identity, "query", -1, "", 0, 0))
    first.commit(identity)
    second.own()
    assert describe_transaction(wire, name.transactional_id).timeout_ms % 100 == 0
    assert write(wire, topic, start()) is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, topic) == ROWS
