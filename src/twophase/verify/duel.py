"""Two sinks under the same kills: one stream of orders, the same query, two topics, one checker."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from twophase.verify.history import History, HistoryFile
from twophase.verify.trial import Source, Trial
from twophase.verify.verdict import Verdict

_FILL_EVERY_S: Final = 0.5
_TELL_EVERY_S: Final = 0.25
_HISTORY: Final = "history.jsonl"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is written, how fast, in which pieces, and how often each driver is killed.

    Each kill comes after a number of new rows in the topic's log, the same for all sinks: in the
    first or second batch after a start, when a part of it lies there.
    """

    rows: int = 200_000
    rows_per_batch: int = 20_000
    rows_per_s: int = 5_000
    kills: int = 3
    seed: int = 0
    limit_s: float = 600.0

    def depths(self) -> list[int]:
        """Return after how many more rows each kill comes."""
        rng = random.Random(self.seed)  # noqa: S311 - it picks moments, not secrets
        batches = [rng.choice((0, 1)) + rng.uniform(0.2, 0.6) for _ in range(self.kills)]
        return [int(count * self.rows_per_batch) for count in batches]


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
        with _filling(source, plan) as filled:
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
    for depth in plan.depths():
        due = trial.length() + depth
        trial.wait_until(lambda due=due: over() or trial.length() >= due, plan.limit_s)  # type: ignore[misc]
        if over():
            break
        trial.driver.kill()
        trial.driver.start()
    trial.wait_until(over, plan.limit_s)
    trial.driver.end()


@contextmanager
def _filling(source: Source, plan: Plan) -> Iterator[Future[None]]:
    """Fill the source beside what happens inside, at a steady rate."""
    stopping = threading.Event()

    def fill() -> None:
        step = max(1, int(plan.rows_per_s * _FILL_EVERY_S))
        began_s = time.monotonic()
        for at, first in enumerate(range(0, plan.rows, step)):
            due_s = began_s + at * _FILL_EVERY_S
            if stopping.wait(max(0.0, due_s - time.monotonic())):
                return
            source.fill(first, min(first + step, plan.rows))

    with ThreadPoolExecutor(1) as pool:
        filled = pool.submit(fill)
        try:
            yield filled
        finally:
            stopping.set()
