"""Two sinks under the same kills: one stream of orders, the same query, two topics, one checker."""

import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twophase.verify.batches import planned_ends
from twophase.verify.history import History, HistoryFile
from twophase.verify.source import Source
from twophase.verify.trial import Trial
from twophase.verify.verdict import Verdict

_TELL_EVERY_S: Final = 0.25
_HISTORY: Final = "history.jsonl"
_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class Moment:
    """When a kill is due: after some more batches, with this share of the next one in the log."""

    batches: int
    share: float


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is written, how fast, in which pieces, and how often each driver is killed."""

    rows: int = 200_000
    rows_per_batch: int = 20_000
    rows_per_s: int = 5_000
    kills: int = 3
    seed: int = 0
    limit_s: float = 600.0

    def moments(self) -> list[Moment]:
        """Return when each kill comes, the same for all sinks."""
        rng = random.Random(self.seed)  # noqa: S311 - it picks moments, not secrets
        return [Moment(rng.choice((0, 1)), rng.uniform(0.2, 0.6)) for _ in range(self.kills)]


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a sink is: rows that its reader has seen, kills that it has had."""

    rows: int
    kills: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: a verdict for each sink, in the order given, and all that happened."""

    verdicts: tuple[Verdict, ...]
    history: History
    kills: Mapping[str, int]
    took_s: float


Told = Callable[[Mapping[str, Standing]], None]


def duel(
    servers: str, folder: Path, sinks: Sequence[str], plan: Plan, told: Told = lambda _: None
) -> Outcome:
    """Run the sinks side by side until each has written all rows.

    `told` hears a few times a second how far each is. Nothing of it runs any more when this returns
    or raises, an interrupt included.
    """
    began_s = time.monotonic()
    with ExitStack() as stack:
        history = stack.enter_context(HistoryFile(folder / _HISTORY))
        source = stack.enter_context(Source(servers, plan.rows, history))
        trials = [
            stack.enter_context(
                Trial(source, folder / f"q{at}", sink=sink, rows_per_batch=plan.rows_per_batch)
            )
            for at, sink in enumerate(sinks)
        ]
        with source.filling(plan.rows_per_s) as filled:
            _fight(trials, plan, told, filled)
        verdicts = tuple(trial.verdict() for trial in trials)
    return Outcome(
        verdicts,
        History.load(folder / _HISTORY),
        {trial.sink: trial.driver.kills for trial in trials},
        time.monotonic() - began_s,
    )


def _fight(trials: Sequence[Trial], plan: Plan, told: Told, filled: Future[None]) -> None:
    """Let all queries run and die; the first failure, or an interrupt, stops them all.

    A source that is not filled any more is a failure too: nobody would ever be done.
    """
    stopping = threading.Event()
    with ThreadPoolExecutor(len(trials)) as pool:
        fights: list[Future[None]] = [
            pool.submit(_survive, trial, plan, stopping) for trial in trials
        ]
        try:
            left = {*fights}
            while left:
                done, left = wait(left, timeout=_TELL_EVERY_S)
                told({each.sink: Standing(each.reader.rows, each.driver.kills) for each in trials})
                for over in (*done, *((filled,) if filled.done() else ())):
                    over.result()
        finally:
            stopping.set()


def _survive(trial: Trial, plan: Plan, stopping: threading.Event) -> None:
    """Run one query until all rows are written, killed on the way."""

    def over() -> bool:
        return stopping.is_set() or trial.finished()

    trial.driver.start()
    for moment in plan.moments():
        killer = Killer(trial, moment)
        trial.wait_until(lambda killer=killer: killer() or over(), plan.limit_s)  # type: ignore[misc]
        if not killer.killed:
            break
        trial.driver.start()
    trial.wait_until(over, plan.limit_s)
    trial.driver.end()


class Killer:
    """Kills a driver in a batch: a part of it lies in the log, and Spark has not noted it.

    Only a process that stands still can be known to be there. Where several batches have come and
    gone too quickly for that, it is killed in one that is planned and not noted.
    """

    def __init__(self, trial: Trial, moment: Moment) -> None:
        self._trial, self._moment = trial, moment
        self._done, self._length = trial.last_done(), trial.length()
        self._first = self._done + 1 + moment.batches
        self.killed = False

    def __call__(self) -> bool:
        """Kill it if the moment has come, and tell whether."""
        done, length = self._trial.last_done(), self._trial.length()
        if done != self._done:
            self._done, self._length = done, length
        if done + 1 >= self._first and self._due(length - self._length):
            self.killed = self._trial.driver.kill_if(lambda: self._trial.last_done() == done)
        return self.killed

    def _due(self, written: int) -> bool:
        rows = self._rows()
        if self._done + 1 >= self._first + _TRIES:
            return rows < math.inf
        return written > 0 and written >= self._moment.share * rows

    def _rows(self) -> float:
        """Return how many rows the batch has that is not done yet."""
        here = (self._trial.checkpoint, self._trial.source.topic)
        ends = planned_ends(*here, self._done + 1)
        if ends is None:
            return math.inf
        begins = planned_ends(*here, self._done) or {}
        return sum(ends.values()) - sum(begins.values())
