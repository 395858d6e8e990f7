"""How soon a query that was killed with -9 commits again, and how long its readers were held up.

The driver dies in the middle of a send, with its transaction open. Spark's own start is left out:
all times begin when Spark calls the sink for the first time after the restart. What a JVM and
Python workers that have just started take to compute the batch is told apart.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.report import Figure
from twophase.verify.duel import Killer, Moment
from twophase.verify.history import BatchDone, FaultInjected, History, HistoryFile, ReaderStalled
from twophase.verify.source import Source
from twophase.verify.trial import Trial

ROWS_PER_BATCH = 100_000
MOMENT = Moment(batches=0, share=0.2)
KILL_S, RUN_S = 120.0, 300.0
MUST_S = 2.0


def measure(servers: str, _: int, runs: int) -> Iterator[Figure]:
    """Kill one query again and again, and return the worst of each time."""
    with tempfile.TemporaryDirectory() as folder:
        history = Path(folder) / "history.jsonl"
        with HistoryFile(history) as told:
            kill_often(servers, told, Path(folder), runs)
        restarts = list(restarts_in(History.load(history)))
    name = f"killed in mid-send, {runs} times:"

    # Every one of them has to be good, so the worst counts.
    def worst(what: str, of: Callable[[Restart], float], must: float | None) -> Figure:
        return Figure(f"{name} {what}", "s", (max(map(of, restarts)),), must=must, lower=True)

    rows = f"{ROWS_PER_BATCH:,} rows"
    yield worst(f"first commit of {rows}", lambda one: one.computed_s + one.written_s, None)
    yield worst("the same without computing them", lambda one: one.written_s, MUST_S)
    yield worst("readers held up", lambda one: one.held_s, MUST_S)


def kill_often(servers: str, told: HistoryFile, folder: Path, kills: int) -> None:
    """Run one query over rows enough for the kills, and let it finish."""
    with (
        Source(servers, ROWS_PER_BATCH * (2 * kills + 1), told) as source,
        Trial(source, folder / "q", rows_per_batch=ROWS_PER_BATCH) as trial,
    ):
        source.fill()
        trial.driver.start()
        for _ in range(kills):
            trial.wait_until(Killer(trial, MOMENT), KILL_S)
            trial.driver.start()
        trial.wait_until(trial.finished, RUN_S)
        trial.driver.end()
        verdict = trial.verdict()
        if not verdict.ok:
            raise SystemExit(f"the rows are not right: {verdict.findings}")


@dataclass(frozen=True, slots=True)
class Restart:
    """The first batch after a kill: computing it, all else, and how long readers waited for it."""

    computed_s: float
    written_s: float
    held_s: float


def restarts_in(history: History) -> Iterator[Restart]:
    """Yield what came after each kill."""
    batches, stalls = list(history.all(BatchDone)), list(history.all(ReaderStalled))
    for kill in history.all(FaultInjected):
        first = next(each for each in batches if each.at_s > kill.at_s)
        total_s, computed_s = first.record["total_s"], first.record["encode_s"]
        called_s = first.at_s - total_s
        waits_s = [each.at_s - called_s for each in stalls if called_s < each.at_s <= first.at_s]
        yield Restart(computed_s, total_s - computed_s, max(waits_s, default=0.0))
