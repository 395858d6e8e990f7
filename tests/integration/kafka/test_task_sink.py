"""Kafka in task scope on real brokers: identities, rivals, zombies, rescaling, timeouts, kills."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.task_drivers import TaskSinkStage, expected, rows_of
from support.waiting import wait_until

from twophase.attempt import run_attempt
from twophase.commit.attempts import Turn
from twophase.commit.effects import Outcome
from twophase.errors import (
    AccessDenied,
    CommitOutcomeUnknown,
    CommittableLost,
    ConfigurationError,
    Fenced,
    InvalidState,
    OwnedByAnother,
    TwoPhaseError,
)
from twophase.kafka import lingering, pool, task_sink
from twophase.kafka.admin import TransactionState, describe_transaction
from twophase.kafka.groups import delete_group
from twophase.kafka.task_writer import TaskWriter, identity_in
from twophase.kafka.transactions import Transactions
from twophase.task_scope import OnLost

SCRIPT = Path(__file__).parent / "task_driver.py"
RESCALED = [(1, 2), (5, 2), (6, 5), (3, 1)]
# A batch that is held up for less is in time all the same.
SHORT = {"kafka.transaction.timeout.ms": 5_000}


@pytest.fixture(params=["kafka", pytest.param("kafka39", marks=pytest.mark.long)])
def broker(request):
    """Both protocol versions, the older one among the long tests."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def stage_of(broker, make_topic, tmp_path):
    """Make a sink on the broker under test."""
    return lambda **options: TaskSinkStage(
        broker, make_topic(broker), tmp_path / "log", dict(options.items())
    )


@pytest.fixture
def stage(stage_of):
    """A sink on the broker under test."""
    return stage_of()


class Died(BaseException):
    """The driver is gone, in the middle of its batch."""


def die(*_):
    raise Died


def opened(stage, sink, epoch=1, batch=0):
    """A turn of a batch that its driver has opened."""
    turn = Turn(stage.prefix, epoch, batch)
    return replace(turn, given=sink.open(turn))


def test_ids_are_few(stage):
    """Batch after batch is written under the ids of the largest one; losers have theirs too."""
    driver = stage.driver()
    for number, count in enumerate((1, 3, 2, 3)):
        driver.write(number, count, losers=1)
    assert stage.values() == expected((0, 1), (1, 3), (2, 2), (3, 3))
    assert stage.lingering() == []
    # Six attempts in the largest batch, and one for each draw of the driver's own.
    assert len(stage.ids()) <= 8


@pytest.mark.parametrize(
    ("before", "after"),
    [(2, 5), *(pytest.param(*each, marks=pytest.mark.long) for each in RESCALED)],
)
def test_rescaling_leaves_nothing(stage, before, after):
    """A driver dies with its transactions open; the next has more tasks, or fewer."""
    with pytest.raises(Died):
        stage.driver().write(0, before, after=die)
    assert len(stage.lingering()) == before
    stage.driver().write(0, after, first_try=False)
    assert stage.lingering() == []
    assert stage.values() == expected((0, after))


@pytest.mark.parametrize(
    "lists",
    [pytest.param(True, id="listed"), pytest.param(False, id="guessed", marks=pytest.mark.long)],
)
def test_a_start_without_its_log(stage, monkeypatch, lists):
    """What an older driver left is found by name; where nobody lists names, by guessing them."""
    with pytest.raises(Died):
        stage.driver().write(0, 3, losers=1, after=die)
    assert len(stage.lingering()) == 6

    def refuse(*_, **__):
        raise AccessDenied("not for you")

    if not lists:
        monkeypatch.setattr(lingering, "list_transactions", refuse)
    next_second()
    replace(stage, folder=stage.folder / "anew").driver().write(0, 1)
    assert stage.lingering() == []
    assert stage.values() == expected((0, 1))


def next_second():
    """Without a log only the clock tells one driver's epoch from another's."""
    now_s = int(time.time())
    wait_until(lambda: int(time.time()) > now_s, 5)


def test_two_drivers_of_one_epoch(stage):
    """Without the log, or with a clock that is behind: the second is refused before it asks."""
    stage.sink().own(stage.prefix, 5, "query")
    for epoch in (5, 4):
        with pytest.raises(Fenced, match=f"with epoch 5, and this one has {epoch}"):
            stage.sink().own(stage.prefix, epoch, "query")
    stage.sink().own(stage.prefix, 6, "query")


def test_a_second_query_is_told_who_owns_the_sink(stage):
    """At its start, before it takes or ends anything; also where its log is another one."""
    first = stage.driver()
    first.write(0, 1, owner="query-a")
    other = replace(stage, folder=stage.folder / "other")

    def rival(*_):
        before = describe_transaction(stage.wire, stage.name.transactional_id)
        with pytest.raises(OwnedByAnother, match="belongs to query query-a"):
            other.driver().write(0, 2, owner="query-b")
        assert describe_transaction(stage.wire, stage.name.transactional_id) == before

    first.write(1, 2, owner="query-a", after=rival)
    assert stage.values() == expected((0, 1), (1, 2))


def test_a_driver_at_work_keeps_its_marker(stage, monkeypatch):
    """Kafka drops what nobody renews; a driver that was replaced does not take the sink back."""
    monkeypatch.setattr(task_sink, "_NOTED_EVERY_S", 0.0)
    sink = stage.sink()
    sink.own(stage.prefix, 1, "query-a")
    delete_group(stage.wire, stage.name.marker_group)
    opened(stage, sink)
    with pytest.raises(OwnedByAnother, match="belongs to query query-a"):
        stage.sink().own(stage.prefix, 2, "query-b")
    stage.sink().own(stage.prefix, 2, "query-a")
    with pytest.raises(Fenced, match="with epoch 2, and this one has 1"):
        opened(stage, sink, batch=1)


def test_a_zombie_never_touches_the_winner(stage):
    """Whether it has drawn or not, has written or not, and however late it wakes up."""
    sink = stage.sink()
    sink.own(stage.prefix, 1, "query")
    turn = opened(stage, sink)
    written, drawn = (sink.begin(turn.attempt(0, number)) for number in (0, 1))
    sink.write(written, rows_of(90))
    written._send()
    winner = run_attempt(sink, turn.attempt(0, 2), [rows_of(1)])
    sink.confirm([winner.committable])
    # Decided here. The zombies go on; one more begins only now.
    late = sink.begin(turn.attempt(0, 3))
    for each in (written, drawn, late):
        sink.write(each, rows_of(91))
        sink.prepare(each)
    sink.confirm([winner.committable])
    sink.commit(winner.committable)
    sink.recover(turn.stale)
    assert stage.values() == [1]
    assert stage.lingering() == []
    following = opened(stage, sink, batch=1)
    zombie = sink.begin(turn.attempt(0, 4))
    second = run_attempt(sink, following.attempt(0, 5), [rows_of(2)])
    sink.write(zombie, rows_of(92))
    sink.prepare(zombie)
    sink.commit(second.committable)
    sink.recover(following.stale)
    assert stage.values() == [1, 2]
    assert stage.lingering() == []


def test_an_identity_of_the_past_writes_nothing(stage):
    """A zombie that held its identity over the end of its batch is refused."""
    sink = stage.sink()
    turn = opened(stage, sink)
    zombie = sink.begin(turn.attempt(0, 0))
    opened(stage, sink, batch=1)
    sink.write(zombie, rows_of(1))
    with pytest.raises(TwoPhaseError):
        sink.prepare(zombie)
    assert stage.lingering() == []


def test_without_tickets_a_zombie_loses_what_was_decided(stage):
    """The naive way: each attempt asks for its task's id itself."""
    sink, transactions = stage.sink(), Transactions(stage.wire)
    name = f"{stage.prefix}0000000001/task-0"

    def naive():
        return TaskWriter(stage.wire, transactions.own(name), stage.topic, spread_from=0)

    winner = naive()
    winner.write(rows_of(1))
    committable = winner.finish()
    sink.confirm([committable])
    naive()  # It chose the id long ago, hung, and asks for it after the decision.
    with pytest.raises((CommittableLost, CommitOutcomeUnknown)):
        sink.commit(committable)
    assert stage.values() == []


def test_a_pool_that_is_too_small_names_the_setting(stage):
    """Nothing of the batch stays open."""
    driver = stage.driver(stage.sink(pool_size=2))
    with pytest.raises(ConfigurationError, match=r"pool exhausted.*all 2 .*larger pool_size"):
        driver.write(0, 3)
    assert stage.lingering() == []
    assert stage.values() == []


@pytest.mark.long
def test_tickets_that_are_worn_out(stage, monkeypatch):
    """A new one is taken long before the broker counts to its end; the ids go on."""
    monkeypatch.setattr(pool, "_EPOCH_WORN", 12)
    driver = stage.driver(stage.sink(pool_size=4))
    for number in range(6):
        driver.write(number, 2)
    assert stage.values() == expected(*((number, 2) for number in range(6)))
    assert stage.lingering() == []


def run_script(stage, **arguments):
    """Start a process; return it."""
    given = {
        "servers": stage.broker.bootstrap_servers,
        "topic": stage.topic,
        "sink_id": stage.name.sink_id,
        "folder": str(stage.folder),
        **arguments,
    }
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), json.dumps(given)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.long
def test_a_hundred_commits_from_several_processes(stage):
    """All at once, by 25 threads in each of four: one effect, and nobody is told otherwise."""
    sink = stage.sink()
    sink.own(stage.prefix, 1, "query")
    turn = opened(stage, sink)
    prepared = [run_attempt(sink, turn.attempt(n, n), [rows_of(n)]).committable for n in range(2)]
    running = [run_script(stage, committables=prepared, threads=25) for _ in range(4)]
    assert [each.stdout.readline() for each in running] == ["ready\n"] * 4
    assert stage.values() == []
    for each in running:
        each.stdin.write("go on\n")
        each.stdin.flush()
    assert [each.communicate(timeout=120)[0] for each in running] == ["done\n"] * 4
    sink.commit(prepared[0])
    assert stage.values() == [0, 1]


def test_killed_between_any_two_commits(stage):
    """Kill -9 after k commits of a real driver: the next one makes the others."""
    tasks = 3
    for commits in range(tasks):
        fresh = replace(
            stage,
            name=type(stage.name)(f"{stage.name.sink_id}-{commits}"),
            folder=stage.folder / str(commits),
        )
        process = run_script(fresh, tasks=tasks, commits=commits)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == -9, said
        assert len(fresh.lingering()) == tasks - commits
        assert fresh.driver().write(0, tasks, first_try=False).outcome is Outcome.SKIPPED
        assert fresh.lingering() == []
    assert stage.values() == sorted(expected((0, tasks)) * tasks)


def timed_out(stage, committable):
    """Wait until the broker has aborted a transaction by itself."""
    wait_until(lambda: stage.state(committable).state is TransactionState.COMPLETE_ABORT, 60)


def test_timed_out_before_the_decision(stage_of):
    """Nothing is decided; the batch is refused, and run again."""
    stage = stage_of(**SHORT)

    def wait(_, turn):
        first = turn.given.new_id(1)
        wait_until(lambda: first not in stage.lingering(), 60)

    driver = stage.driver()
    with pytest.raises(InvalidState, match="1 of 1 transactions of the batch are not open"):
        driver.write(0, 1, after=wait)
    replace(stage, options={}).driver().write(0, 1, first_try=False)
    assert stage.values() == expected((0, 1))


@pytest.mark.parametrize(
    "on_lost", [OnLost.FAIL, pytest.param(OnLost.RECORD, marks=pytest.mark.long)]
)
def test_timed_out_after_the_decision(stage_of, on_lost):
    """The rows are gone: it stops and says which, or, by the user's choice, records it."""
    stage = stage_of(**SHORT)

    class Slow(type(stage.sink())):
        def commit(self, committable):
            timed_out(stage, committable)
            super().commit(committable)

    sink = Slow(stage.parsed, stage.topic, stage.topic)
    driver = stage.driver(sink, on_lost=on_lost)
    if on_lost is OnLost.RECORD:
        ended = driver.write(0, 1)
        # Behind the warning that most of the time is spent.
        assert "Kafka has aborted it" in ended.warnings[-1]
        (lost,) = (each.name for each in stage.folder.glob("lost-*"))
        assert lost.startswith("lost-000000000000-00000-")
        driver.write(1, 0)
        return
    for again in (driver, stage.driver()):
        with pytest.raises(CommittableLost, match="1 rows of task 0 of batch 0"):
            again.write(0, 1, first_try=again is driver)
    assert stage.values() == []


def test_all_that_timed_out_after_the_decision_is_told_at_once(stage_of):
    """Two of three: with the places of each; the third is committed, and is said to be."""
    stage = stage_of(**SHORT)

    class Slow(type(stage.sink())):
        def commit(self, committable):
            if committable is not first:
                timed_out(stage, committable)
            super().commit(committable)

        def confirm(self, committables):
            nonlocal first
            first = committables[0]
            super().confirm(committables)

    first = None
    sink = Slow(stage.parsed, stage.topic, stage.topic)
    with pytest.raises(CommittableLost) as found:
        stage.driver(sink).write(0, 3)
    text = str(found.value)
    assert "2 rows in 2 of 3 transactions of batch 0" in text
    assert "all else of the batch is committed" in text
    for task, committable in zip((1, 2), found.value.ids["committables"], strict=True):
        assert f"1 rows of task {task} of batch 0, transaction {stage.prefix}" in text
        ((partition, begin, end),) = committable["partitions"]
        assert f"its rows were in {partition} from offset {begin} to {end}" in text
    assert stage.values() == [0]
    ended = stage.driver(on_lost=OnLost.RECORD).write(0, 3, first_try=False)
    assert (ended.outcome, len(ended.warnings)) == (Outcome.SKIPPED, 2)
    assert len(list(stage.folder.glob("lost-*"))) == 2
    assert stage.lingering() == []


def test_what_has_moved_on_is_neither_committed_nor_lost(stage):
    """Asked about a batch long done, after its id has served others: unknown, and said so."""
    sink = stage.sink()
    turn = opened(stage, sink)
    first = run_attempt(sink, turn.attempt(0, 0), [rows_of(0)]).committable
    sink.commit(first)
    for batch in (1, 2, 3):
        turn = opened(stage, sink, batch=batch)
        for attempt in range(3):
            again = run_attempt(sink, turn.attempt(0, attempt), [rows_of(batch)]).committable
            sink.commit(again)
    assert identity_in(first) != identity_in(again)
    ((partition, begin, end),) = first["partitions"]
    where = f"its id has moved on.* look for its rows in {partition} from offset {begin} to {end} "
    with pytest.raises(CommitOutcomeUnknown, match=where):
        sink.commit(first)
