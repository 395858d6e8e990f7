"""Kafka in task scope with messages lost and late, and brokers gone."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.task_drivers import Tasks, TaskSinkStage, expected, rows_of

from twophase.attempt import run_attempt
from twophase.commit.attempts import Turn
from twophase.errors import CommitOutcomeUnknown, CommittableLost, TwoPhaseError
from twophase.kafka.task_writer import TaskWriter
from twophase.kafka.transactions import Transactions
from twophase.verify.proxy import ApiKey, KafkaProxy

SHORT = {"kafka.request.timeout.ms": 1_000, "kafka.max.block.ms": 8_000}
TRIES = 5


@pytest.fixture(params=["kafka", pytest.param("kafka39", marks=pytest.mark.long)])
def broker(request):
    """Both protocol versions, the older one among the long tests."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def proxy(broker):
    """Between the sink and the broker."""
    with KafkaProxy(broker.proxied) as found:
        yield found


@pytest.fixture
def stage(broker, proxy, make_topic, tmp_path):
    """A sink that reaches the broker through the proxy."""
    far = SimpleNamespace(bootstrap_servers=proxy.bootstrap_servers)
    return TaskSinkStage(far, make_topic(broker), tmp_path / "log", SHORT)


def new_id(frame):
    """Whether this asks for an id that an attempt has made, and not for a ticket."""
    return b"/1." in frame.payload


def test_an_ask_for_an_identity_that_arrives_late(stage, proxy):
    """Nobody has asked for that id again, and the attempt has another: it aborts nothing."""
    sink = stage.sink()
    turn = Turn(stage.prefix, 1, 0)
    turn = replace(turn, given=sink.open(turn))
    lost = proxy.on(ApiKey.INIT_PRODUCER_ID, where=new_id).cut()
    winner = run_attempt(sink, turn.attempt(0, 0), [rows_of(1)])
    assert winner.committable["transactional_id"] == turn.given.new_id(2)
    lost.deliver()
    sink.confirm([winner.committable])
    sink.commit(winner.committable)
    assert stage.values() == [1]


def test_an_ask_for_an_identity_that_arrives_in_a_later_batch(stage, proxy):
    """The driver gives no id to others for which an ask may still come."""
    sink = stage.sink()
    turn = Turn(stage.prefix, 1, 0)
    turn = replace(turn, given=sink.open(turn))
    lost = proxy.on(ApiKey.INIT_PRODUCER_ID, where=new_id).cut()
    run_attempt(sink, turn.attempt(0, 0), [rows_of(0)])
    following = replace(turn, batch=1, given=sink.open(replace(turn, batch=1)))
    prepared = [
        run_attempt(sink, following.attempt(task, task + 1), [rows_of(task)]).committable
        for task in (1, 2)
    ]
    sink.confirm(prepared)
    lost.deliver()
    for each in prepared:
        sink.commit(each)
    assert stage.values() == [1, 2]


def test_asked_again_it_would_abort_what_is_prepared(stage, proxy):
    """The same ask, repeated as others are: the first one arrives after the decision."""
    name = f"{stage.prefix}0000000001/1.1"
    lost = proxy.on(ApiKey.INIT_PRODUCER_ID, where=new_id).cut()
    identity = Transactions(stage.wire).own(name)
    writer = TaskWriter(stage.wire, identity, stage.topic, spread_from=0)
    writer.write(rows_of(1))
    committable = writer.finish()
    sink = stage.sink()
    sink.confirm([committable])
    lost.deliver()
    with pytest.raises((CommittableLost, CommitOutcomeUnknown)):
        sink.commit(committable)
    assert stage.values() == []


class Retried(Tasks):
    """As Spark does it: a task that failed is started again."""

    def run(self, turn, _anew):
        return [self.task(turn, number) for number in range(self.count)]

    def task(self, turn, number):
        for attempt in range(TRIES):
            try:
                rows = [rows_of(100 * self.number + number)]
                return run_attempt(self.sink, turn.attempt(number, 10 * number + attempt), rows)
            except TwoPhaseError:
                if attempt == TRIES - 1:
                    raise
        return None


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize(
    "api",
    [
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.PRODUCE,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.FIND_COORDINATOR,
        ApiKey.OFFSET_FETCH,
    ],
)
def test_a_lost_message_of_any_kind(stage, broker, proxy, api, direction, monkeypatch):
    """Lost once in every batch: each row once, nothing lingers; a query that stops is restarted."""
    if api is ApiKey.ADD_PARTITIONS_TO_TXN and broker.version != "3.9.2":
        pytest.skip("version 2 has no such request")
    monkeypatch.setattr("support.task_drivers.Tasks", Retried)
    driver, caught = stage.driver(), []
    for number in range(3):
        caught.append(proxy.on(api, direction).cut())
        for tried in range(TRIES):
            try:
                driver.write(number, 2, first_try=not tried)
                break
            except TwoPhaseError:
                driver = stage.driver()
        else:
            pytest.fail(f"batch {number} was not written in {TRIES} starts")
    assert sum(each.count for each in caught) > 0
    proxy.clear()
    stage.driver().write(3, 1)
    assert stage.values() == expected((0, 2), (1, 2), (2, 2), (3, 1))
    assert stage.lingering() == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_broker_is_killed(private_kafka, make_topic, tmp_path):
    """With transactions open, before a start and between two batches: the others have them."""
    quick = {"broker.session.timeout.ms": 3_000, "broker.heartbeat.interval.ms": 500}
    cluster = private_kafka(nodes=3, properties=quick)
    stage = TaskSinkStage(cluster, make_topic(cluster, 3), tmp_path / "log", SHORT)

    class DiedError(Exception):
        pass

    def die(*_):
        cluster.nodes[0].kill()
        raise DiedError

    with pytest.raises(DiedError):
        stage.driver().write(0, 4, after=die)
    for number, node in ((0, 0), (1, 1), (2, None)):
        for tried in range(TRIES):
            try:
                stage.driver().write(number, 4, first_try=not tried)
                break
            except TwoPhaseError:
                pass
        else:
            pytest.fail(f"batch {number} was not written in {TRIES} starts")
        if node is not None:
            cluster.nodes[node].restart()
            cluster.nodes[node + 1].kill()
    cluster.nodes[2].restart()
    assert stage.lingering() == []
    assert stage.values() == expected((0, 4), (1, 4), (2, 4))
