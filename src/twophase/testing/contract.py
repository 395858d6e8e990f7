"""What every `TwoPhaseCommitSink` must do, as tests that run against a real store.

    class TestMine(SinkContract):
        @pytest.fixture
        def stage(self, tmp_path):
            target = tmp_path / "target"
            return Stage(make=lambda: MySink(target), visible=lambda: ids_in(target), log=tmp_path)

A process is killed before and after each of its steps, and frozen there while another takes over;
each time every row must be in the store once.
"""

import gc
import json
import pickle
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from twophase.attempt import run_attempt
from twophase.commit.attempts import Attempt, Stale, Turn, prefix_of
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.errors import CommittableLost, TwoPhaseError
from twophase.log.decision import Prepared
from twophase.log.decisions import DecisionLog
from twophase.task_scope import TaskScope
from twophase.testing.folder import LocalFolder
from twophase.testing.mortal import Died, InTurn, MortalFolder, MortalSink, Process
from twophase.two_phase import TwoPhaseCommitSink

# Rows of each task of a batch; the second has none.
_TASKS = ((0, 1, 2), (), (3,))
_WAIT_S = 60
_STEPS_MAX = 200
_HELD_S, _POLL_S = 10.0, 0.02


def id_rows(ids: Iterable[int]) -> pa.RecordBatch:
    """Return rows with one column, `id`."""
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})


@dataclass
class Stage:
    """A store for one test: how a process makes its sink, and what a reader of the store sees.

    `rows` makes rows of the sink's columns from ids, which `visible` returns, in any order. `log`
    is an empty folder. `held`, if the store can tell, returns how many transactions it holds that
    are neither committed nor dropped, of whichever process: only so is an `abort` seen that does
    nothing.
    """

    make: Callable[[], TwoPhaseCommitSink[Any]]
    visible: Callable[[], list[int]]
    log: Path
    rows: Callable[[Iterable[int]], pa.RecordBatch] = id_rows
    held: Callable[[], int] = lambda: 0
    prefix: str = field(default_factory=lambda: prefix_of(SinkName(f"contract-{uuid4().hex[:8]}")))

    # The batches that drivers have opened here, by epoch and number, and a sink for each driver.
    _open: dict[tuple[int, int], Any] = field(init=False, default_factory=dict)
    _drivers: dict[int, TwoPhaseCommitSink[Any]] = field(init=False, default_factory=dict)

    def attempt(
        self, *, epoch: int = 1, batch: int = 0, task: int = 0, attempt: int = 0
    ) -> Attempt:
        """Return an attempt of a task of a batch that its driver has opened."""
        turn = Turn(self.prefix, epoch, batch)
        if (epoch, batch) not in self._open:
            if epoch not in self._drivers:
                self._drivers[epoch] = self.make()
                self._drivers[epoch].own(self.prefix, epoch, "contract")
            self._open[epoch, batch] = self._drivers[epoch].open(turn)
        return replace(turn, given=self._open[epoch, batch]).attempt(task, attempt)

    def stale(self, epoch: int, batch: int = 9) -> Stale:
        """Return that drivers up to this epoch have lost, and have nothing of a later batch."""
        return Stale(self.prefix, epoch, batch, range(epoch + 1))

    def prepared(self, ids: Iterable[int], **where: int) -> Prepared:
        """Return what a task has prepared in a process that is gone."""
        found = run_attempt(self.make(), self.attempt(**where), [self.rows(ids)])
        if found is None:
            raise ValueError("a task without rows prepares nothing")
        return found

    def anew(self, name: str) -> "Stage":
        """Return a stage over the same store for a sink and a log of its own."""
        prefix = prefix_of(SinkName(f"contract-{uuid4().hex[:8]}"))
        return replace(self, log=self.log / name, prefix=prefix)

    def driver(self, process: Process | None = None) -> "Driver":
        """Return a new driver."""
        return Driver(self, process or Process())


class Driver:
    """A driver and its tasks, in one process that may die."""

    def __init__(self, stage: Stage, process: Process) -> None:
        self.process = process
        self._stage = stage
        self._run_id = uuid4().hex
        self._sink = MortalSink(stage.make(), process)
        log = DecisionLog(MortalFolder(LocalFolder(stage.log / "decisions"), process))
        self._scope = TaskScope(self._sink, log, stage.prefix, pool=InTurn)

    def write(self, number: int, *, first_try: bool) -> None:
        """Write a batch of four rows, whose ids follow from its number."""
        batch = Batch("contract", number, f"offsets-{number}", first_try=first_try)
        self._scope.write(self._run_id, batch, _Tasks(self._stage, self._sink, number))


@dataclass
class _Tasks:
    stage: Stage
    sink: TwoPhaseCommitSink[Any]
    number: int

    def run(self, turn: Turn, _anew: Callable[[], None]) -> list[Prepared]:
        found = []
        for task, ids in enumerate(_TASKS):
            # The first attempt of each task is one whose result Spark does not take.
            for attempt in range(2):
                rows = [self.stage.rows([10 * self.number + each]) for each in ids]
                at = turn.attempt(task, 10 * self.number + attempt)
                prepared = run_attempt(self.sink, at, rows)
            if prepared is not None:
                found.append(prepared)
        return found

    def execute(self) -> None:
        pass


def _expected(batches: int) -> list[int]:
    return [10 * number + each for number in range(batches) for ids in _TASKS for each in ids]


# Connections of a process that died are closed by the system; here the garbage collector does it.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
class SinkContract:
    """The tests; a subclass gives the fixture `stage`."""

    def test_prepared_rows_are_seen_by_nobody(self, stage: Stage) -> None:
        """Rows are visible after the commit, and not before."""
        prepared = stage.prepared([1, 2])
        _expect(stage.visible(), [])
        stage.make().commit(prepared.committable)
        _expect(sorted(stage.visible()), [1, 2])

    def test_a_sink_and_its_committables_travel(self, stage: Stage) -> None:
        """The sink goes by pickle, the committable by JSON, and both work where they arrive."""
        sink = pickle.loads(pickle.dumps(stage.make()))  # noqa: S301 - made here
        transaction = sink.begin(stage.attempt())
        sink.write(transaction, stage.rows([1]))
        stage.make().commit(json.loads(json.dumps(sink.prepare(transaction))))
        _expect(stage.visible(), [1])

    def test_a_commit_may_be_repeated(self, stage: Stage) -> None:
        """Twice, by several processes, and side by side: one effect."""
        prepared = [stage.prepared([task], task=task) for task in range(3)]
        with ThreadPoolExecutor(8) as pool:
            for commit in [
                pool.submit(stage.make().commit, each.committable)
                for each in prepared
                for _ in range(8)
            ]:
                commit.result(_WAIT_S)
        stage.make().commit(prepared[0].committable)
        _expect(sorted(stage.visible()), [0, 1, 2])

    def test_an_abort_drops_the_rows(self, stage: Stage) -> None:
        """Before anything was written, after, and nothing is left for others to fall over."""
        for rows in ([], [1]):
            sink = stage.make()
            transaction = sink.begin(stage.attempt(attempt=len(rows)))
            if rows:
                sink.write(transaction, stage.rows(rows))
            sink.abort(transaction)
            _expect_none_held(stage, "after an abort")
        stage.make().recover(stage.stale(9))
        _expect(stage.visible(), [])

    def test_what_lost_is_ended(self, stage: Stage) -> None:
        """A commit of it says that it is lost; what a newer driver has prepared is not touched."""
        old, new = stage.prepared([1], epoch=1), stage.prepared([2], epoch=2)
        begun = stage.make()
        transaction = begun.begin(stage.attempt(epoch=1, attempt=7))
        begun.write(transaction, stage.rows([3]))
        for _ in range(2):
            stage.make().recover(stage.stale(1))
        with pytest.raises(CommittableLost):
            stage.make().commit(old.committable)
        stage.make().commit(new.committable)
        _expect(stage.visible(), [2])
        begun.abort(transaction)
        _expect_none_held(stage, "after a recovery")

    def test_what_older_drivers_left_is_ended(self, stage: Stage) -> None:
        """However many drivers ago, and of whichever batch."""
        left = [stage.prepared([n], epoch=n, batch=2 + n) for n in (1, 2)]
        stage.make().recover(stage.stale(2))
        for each in left:
            with pytest.raises(CommittableLost):
                stage.make().commit(each.committable)
        _expect(stage.visible(), [])
        _expect_none_held(stage, "after a recovery")

    def test_nothing_else_is_ended(self, stage: Stage) -> None:
        """Not a later batch, not a newer driver, not another sink whose name begins alike."""
        other = replace(stage, prefix=f"{stage.prefix[:-2]}x//")
        kept = [
            stage.prepared([1], epoch=1, batch=6),
            stage.prepared([2], epoch=3, batch=5),
            other.prepared([3], epoch=1, batch=5),
        ]
        stage.make().recover(Stale(stage.prefix, 2, 5))
        for each in kept:
            stage.make().confirm([each.committable])
            stage.make().commit(each.committable)
        _expect(sorted(stage.visible()), [1, 2, 3])

    def test_a_zombie_cannot_prepare_for_good(self, stage: Stage) -> None:
        """What goes on after it was ended is found by the next recovery, at the latest."""
        sink = stage.make()
        transaction = sink.begin(stage.attempt(epoch=1))
        sink.write(transaction, stage.rows([1]))
        stage.make().recover(stage.stale(1))
        committable = None
        with suppress(Exception):
            sink.write(transaction, stage.rows([2]))
            committable = sink.prepare(transaction)
        stage.make().recover(stage.stale(1))
        if committable is not None:
            with pytest.raises(CommittableLost):
                stage.make().commit(committable)
        _expect(stage.visible(), [])

    def test_a_recovery_leaves_what_is_committed(self, stage: Stage) -> None:
        """Also its committable stays committed, however often that is asked for."""
        prepared = stage.prepared([1])
        stage.make().commit(prepared.committable)
        stage.make().recover(stage.stale(9, 0))
        stage.make().commit(prepared.committable)
        _expect(stage.visible(), [1])

    def test_confirm_sees_what_is_gone(self, stage: Stage) -> None:
        """What can be committed passes; of what cannot, `confirm` or `commit` says so."""
        prepared = stage.prepared([1])
        stage.make().confirm([prepared.committable])
        stage.make().recover(stage.stale(1))
        with pytest.raises(TwoPhaseError):
            _confirm_and_commit(stage.make(), prepared)
        _expect(stage.visible(), [])

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_killed_at_each_step(self, stage: Stage, *, after: bool) -> None:
        """Whichever step of a batch kills the driver, the next one brings each row in once."""
        for at in range(1, _STEPS_MAX):
            fresh = stage.anew(f"at-{at}")
            before = stage.visible()
            driver = fresh.driver(Process(at, after=after))
            try:
                driver.write(0, first_try=True)
            except Died:
                again = fresh.driver()
                again.write(0, first_try=False)
                again.write(1, first_try=True)
            else:
                _expect(_new(before, stage.visible()), _expected(1), "a driver left alone")
                return
            _expect(_new(before, stage.visible()), _expected(2), f"killed at step {at}")
            _expect_none_held(stage, f"killed at step {at}")
        pytest.fail(f"a batch has more than {_STEPS_MAX} steps")

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_frozen_at_each_step(self, stage: Stage, *, after: bool) -> None:
        """A driver that wakes up after another has taken over changes nothing any more."""
        for at in range(1, _STEPS_MAX):
            fresh = stage.anew(f"at-{at}")
            before = stage.visible()
            process = Process(at, after=after, freezes=True)
            frozen = threading.Thread(target=_until_refused, args=(fresh.driver(process),))
            frozen.start()
            process.stopped.wait(_WAIT_S)
            if not process.froze:
                frozen.join(_WAIT_S)
                _expect(_new(before, stage.visible()), _expected(1), "a driver left alone")
                return
            other = fresh.driver()
            other.write(0, first_try=False)
            other.write(1, first_try=True)
            process.let_go()
            frozen.join(_WAIT_S)
            _expect(frozen.is_alive(), expected=False)
            other.write(2, first_try=True)
            _expect(_new(before, stage.visible()), _expected(3), f"frozen at step {at}")
        pytest.fail(f"a batch has more than {_STEPS_MAX} steps")


def _expect(found: object, expected: object, where: str = "") -> None:
    """Fail where they differ; unlike `assert` also under python -O."""
    if found != expected:
        raise AssertionError(f"{where}: found {found}, expected {expected}".removeprefix(": "))


def _expect_none_held(stage: Stage, where: str) -> None:
    """Fail where the store still holds something after a while: it may learn of a death late."""
    deadline_s = time.monotonic() + _HELD_S
    while stage.held() and time.monotonic() < deadline_s:
        # Connections of a process that died here are closed by the collector.
        gc.collect()
        time.sleep(_POLL_S)
    _expect(stage.held(), 0, f"transactions held {where}")


def _confirm_and_commit(sink: TwoPhaseCommitSink[Any], prepared: Prepared) -> None:
    sink.confirm([prepared.committable])
    sink.commit(prepared.committable)


def _until_refused(driver: Driver) -> None:
    try:
        # Refused by the log, or by the store: what it wrote to is gone.
        with suppress(Exception):
            driver.write(0, first_try=True)
    finally:
        driver.process.stopped.set()


def _new(before: list[int], now: list[int]) -> list[int]:
    """Return what has come to the store since, sorted."""
    rest = sorted(now)
    for each in before:
        rest.remove(each)
    return rest
