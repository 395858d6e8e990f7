"""Batches through the machine on a real broker: each in the topic once, or refused by name."""

import time
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient
from support.engines import RowsEngine
from support.readers import values
from support.rows import named

from twophase.commit.effects import Outcome
from twophase.commit.machine import Machine
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.errors import (
    CheckpointBehind,
    Fenced,
    MarkerMissing,
    OffsetsChanged,
    OwnedByAnother,
    RowRejected,
    StoreUnavailable,
    WrongBatch,
)
from twophase.kafka.admin import TransactionState, describe_transaction, list_transactions
from twophase.kafka.offsets import read_offsets
from twophase.kafka.store import KafkaStore
from twophase.sink import write_batch
from twophase.verify.proxy import ApiKey, KafkaProxy


class Meanwhile(RowsEngine):
    """Something happens while the transaction is open, with rows and marker in it."""

    def __init__(self, wire, topic, rows, act):
        super().__init__(wire, topic, rows)
        self.act = act

    def confirm(self):
        super().confirm()
        self.act()


class Run:
    """One run of a query: a driver that was started, with a machine of its own unless given."""

    def __init__(self, wire, sink_id, topic, machine=None, owner="query-a"):
        self.wire, self.topic, self.owner = wire, topic, owner
        self.store = KafkaStore(wire, SinkName(sink_id), topic)
        self.machine = machine or Machine()
        self.run_id = uuid4().hex

    def write(self, number, rows=None, *, offsets=None, first_try=False, meanwhile=None):
        """Write one batch; return its outcome and the engine that it ran on."""
        rows = named(f"batch{number}", 3) if rows is None else rows
        engine = Meanwhile(self.wire, self.topic, rows, meanwhile or (lambda: None))
        batch = Batch(self.owner, number, offsets or f"offsets-{number}", first_try)
        finished = write_batch(self.machine, self.run_id, batch, self.store, engine)
        return finished.outcome, engine


@pytest.fixture
def topic(broker, make_topic):
    return make_topic(broker)


@pytest.fixture
def sink_id():
    return f"sink-{uuid4().hex[:10]}"


@pytest.fixture
def start(wire, sink_id, topic):
    """Start a run of the query."""

    def begin(machine=None, owner="query-a", via=None):
        return Run(via or wire, sink_id, topic, machine, owner)

    return begin


def batches(*numbers):
    return [value for number in numbers for value in named(f"batch{number}", 3)]


def test_batches_in_a_row(start, broker, topic, wire, sink_id):
    """Each is committed at its first try, and nothing is left open."""
    run = start()
    for number in range(5):
        assert run.write(number)[0] is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, topic) == batches(0, 1, 2, 3, 4)
    open_ones = list_transactions(wire, prefix="twophase.", states=(TransactionState.ONGOING,))
    assert not [one for one in open_ones if sink_id in one.transactional_id]


def test_a_batch_that_is_there_is_executed_and_not_written(start, broker, topic):
    """Restarted after the commit, before Spark noted it: the plan runs, the topic stays."""
    start().write(0)
    start().write(1)
    outcome, engine = start().write(1)
    assert (outcome, engine.executed, engine.sent) == (Outcome.SKIPPED, 1, 0)
    assert start().write(2)[0] is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, topic) == batches(0, 1, 2)


def test_a_batch_without_rows_leaves_its_marker(start, broker, topic):
    """Nothing to write is also a batch: after a restart it is known to be done."""
    run = start()
    run.write(0)
    outcome, engine = run.write(1, rows=[])
    assert (outcome, engine.sent) == (Outcome.COMMITTED, 0)
    assert start().write(1, rows=[])[0] is Outcome.SKIPPED
    assert values(broker.bootstrap_servers, topic) == batches(0)


def test_a_restart_in_the_same_process_owns_anew(start, broker, topic):
    """The same sink object under a new run id fences what the old run may still be doing."""
    machine = Machine()
    start(machine).write(0)
    assert start(machine).write(0)[0] is Outcome.SKIPPED
    assert values(broker.bootstrap_servers, topic) == batches(0)


def test_the_same_batch_twice_in_a_run_is_refused(start, broker, topic):
    """A user's function that calls the sink twice would write a batch in two parts."""
    run = start()
    run.write(0)
    with pytest.raises(WrongBatch):
        run.write(0)
    assert run.write(1)[0] is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, topic) == batches(0, 1)


def test_a_rival_driver_fences_the_older_one(start, broker, topic):
    """Two drivers on one sink: the newer one writes, the older one stops for good."""
    old, new = start(), start()
    old.write(0)
    assert new.write(0)[0] is Outcome.SKIPPED
    assert new.write(1)[0] is Outcome.COMMITTED
    for _ in range(2):
        with pytest.raises(Fenced):
            old.write(1)
    assert new.write(2)[0] is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, topic) == batches(0, 1, 2)


def test_another_query_is_refused(start, broker, topic):
    """The owner is named, and nothing of the other query is written."""
    start().write(0)
    with pytest.raises(OwnedByAnother, match="query-a"):
        start(owner="query-b").write(0)
    assert values(broker.bootstrap_servers, topic) == batches(0)


@pytest.mark.parametrize(
    ("refusal", "owner", "number", "offsets"),
    [
        (OwnedByAnother, "query-b", 0, None),
        (CheckpointBehind, "query-a", 0, None),
        (OffsetsChanged, "query-a", 1, "others"),
    ],
)
def test_a_start_that_is_refused_leaves_the_one_at_work_alone(
    refusal, owner, number, offsets, start, broker, topic, wire, sink_id
):
    """Between two batches, and in the middle of one: the identity that writes is still good."""

    def identity():
        seen = describe_transaction(wire, SinkName(sink_id).transactional_id)
        return seen.producer_id, seen.epoch

    def refused():
        before = identity()
        with pytest.raises(refusal):
            start(owner=owner).write(number, offsets=offsets)
        assert identity() == before

    run = start()
    run.write(0)
    run.write(1)
    refused()
    outcome, engine = run.write(2, meanwhile=refused)
    assert (outcome, engine.sent) == (Outcome.COMMITTED, 1)
    assert run.write(3)[0] is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, topic) == batches(0, 1, 2, 3)


def test_a_marker_that_a_dead_driver_left_pending_is_not_waited_for(start, connect, broker, topic):
    """Only the taking of the id ends its transaction: a peek would wait for what comes after it."""

    class Died(Exception):
        pass

    def die():
        raise Died

    dead = start()
    dead.write(0)
    with pytest.raises(Died):
        dead.write(1, meanwhile=die)
    impatient = start(via=connect(broker.bootstrap_servers, max_block_ms=1_500))
    with pytest.raises(StoreUnavailable):
        impatient.store.read_marker()
    since_s = time.monotonic()
    assert start().store.peek_marker().batch == 0
    assert time.monotonic() - since_s < 1
    assert start().write(1)[0] is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, topic) == batches(0, 1)


def test_a_peek_without_an_answer_is_given_up_soon(start, connect, broker, topic):
    """And the run begins as it would without one."""
    start().write(0)
    with KafkaProxy(broker.proxied) as proxy, pytest.MonkeyPatch.context() as patch:
        run = start(via=connect(proxy.bootstrap_servers, request_timeout_ms=1_000))
        caught = proxy.on(ApiKey.OFFSET_FETCH).cut(times=None)
        describe_last = run.store.describe_last

        def hear_again():
            proxy.clear()
            return describe_last()

        patch.setattr(run.store, "describe_last", hear_again)
        since_s = time.monotonic()
        assert run.write(1)[0] is Outcome.COMMITTED
        assert time.monotonic() - since_s < 10
    assert caught.count >= 1
    assert values(broker.bootstrap_servers, topic) == batches(0, 1)


def test_a_checkpoint_that_was_rolled_back_is_refused(start, broker, topic):
    """Batches that the topic has already are not written again."""
    run = start()
    for number in range(3):
        run.write(number)
    with pytest.raises(CheckpointBehind):
        start().write(1)
    assert values(broker.bootstrap_servers, topic) == batches(0, 1, 2)


def test_a_batch_that_was_planned_anew_is_refused(start, broker, topic):
    """The number is in the topic with other rows: neither skipped nor written."""
    start().write(0)
    with pytest.raises(OffsetsChanged):
        start().write(0, offsets="others")
    assert values(broker.bootstrap_servers, topic) == batches(0)


def delete_marker(broker, sink_id):
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.delete_groups([SinkName(sink_id).marker_group])
    finally:
        admin.close()


def test_a_marker_that_is_gone(start, broker, topic, sink_id):
    """Needed for a replay it is refused; a batch that this run planned itself goes on."""
    start().write(0)
    delete_marker(broker, sink_id)
    with pytest.raises(MarkerMissing):
        start().write(0)
    assert start().write(1, first_try=True)[0] is Outcome.COMMITTED
    assert start().write(1)[0] is Outcome.SKIPPED
    assert values(broker.bootstrap_servers, topic) == batches(0, 1)


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize(
    "api",
    [
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.PRODUCE,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.FIND_COORDINATOR,
        ApiKey.METADATA,
        ApiKey.API_VERSIONS,
    ],
)
def test_a_lost_message_of_any_kind(api, direction, start, connect, broker, topic):
    """Every kind of request or answer lost once, in every batch: each batch once."""
    first = {ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN}
    if api in first and broker.version != "3.9.2":
        pytest.skip("version 2 has no such request")
    with KafkaProxy(broker.proxied) as proxy:
        far = connect(proxy.bootstrap_servers, request_timeout_ms=1_000, max_block_ms=8_000)
        run = start(via=far)
        for number in range(3):
            proxy.on(api, direction).cut()
            assert run.write(number)[0] in {Outcome.COMMITTED, Outcome.COMMITTED_BEFORE}
    assert values(broker.bootstrap_servers, topic) == batches(0, 1, 2)


def test_a_commit_that_is_never_answered(start, connect, broker, topic):
    """The answers to EndTxn are lost until we give up asking: the marker tells, once."""
    with KafkaProxy(broker.proxied) as proxy:
        far = connect(proxy.bootstrap_servers, request_timeout_ms=1_000, max_block_ms=4_000)
        run = start(via=far)
        run.write(0)
        caught = proxy.on(ApiKey.END_TXN, "response").cut(times=None)
        engine = None
        with pytest.MonkeyPatch.context() as patch:
            commit = run.store.commit

            def commit_then_hear_again(identity):
                try:
                    return commit(identity)
                finally:
                    proxy.clear()

            patch.setattr(run.store, "commit", commit_then_hear_again)
            outcome, engine = run.write(1)
    assert caught.count >= 1
    assert (outcome, engine.sent) == (Outcome.COMMITTED_BEFORE, 1)
    assert values(broker.bootstrap_servers, topic) == batches(0, 1)


def test_the_marker_is_a_committed_offset(start, wire, topic, sink_id):
    """Operators find it where consumer groups are: who, which batch, how many rows."""
    start().write(0)
    ((place, committed),) = read_offsets(wire, SinkName(sink_id).marker_group, [(topic, 0)]).items()
    assert place == (topic, 0)
    assert '"owner":"query-a","batch":0' in committed.metadata
    assert '"rows":3' in committed.metadata


def test_a_row_that_only_the_broker_refuses_ends_its_transaction(broker, wire, make_topic, sink_id):
    """Raised by name, and readers are not held up until the timeout."""
    small = make_topic(broker, max_message_bytes=2_000)
    run = Run(wire, sink_id, small)
    with pytest.raises(RowRejected):
        run.write(0, [b"x" * 5_000], first_try=True)
    open_ones = list_transactions(wire, prefix="twophase.", states=(TransactionState.ONGOING,))
    assert not [one for one in open_ones if sink_id in one.transactional_id]
    assert run.write(0, [b"small"], first_try=True)[0] is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, small) == [b"small"]


class Recreating(RowsEngine):
    """After its first send the topic is deleted and made anew: what was acknowledged is gone."""

    def send(self, identity, summary):
        sent = super().send(identity, summary)
        if self.sent == 1:
            recreate(self.wire.options.bootstrap_servers[0], self.topic)
        return sent


class Trusting(Recreating):
    """The same without the comparison of topic ids."""

    def confirm(self):
        pass


def recreate(servers, topic):
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(timeout=30)
    deadline = time.monotonic() + 30
    while True:
        try:
            admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result(timeout=30)
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        else:
            return


@pytest.mark.parametrize(("kind", "attempts"), [(Recreating, 2), (Trusting, 1)])
def test_a_topic_that_is_made_anew_under_a_batch(kind, attempts, start, broker, topic, wire):
    """The batch is sent again into the new topic; without the comparison it is lost in silence."""
    run = start()
    engine = kind(wire, topic, named("row", 3))
    batch = Batch("query-a", 0, "offsets-0", first_try=True)
    finished = write_batch(run.machine, run.run_id, batch, run.store, engine)
    assert (finished.outcome, finished.attempts) == (Outcome.COMMITTED, attempts)
    there = named("row", 3) if kind is Recreating else []
    assert values(broker.bootstrap_servers, topic) == there
