"""How soon a query that was killed with -9 commits again, and how long its readers were held up.

The driver dies in the middle of a send, with its transaction open. Spark's own start is left out:
both times begin when Spark calls the sink for the first time after the restart.
"""

import tempfile
from collections.abc import Iterator
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
        commits_s, held_s = times_s(History.load(history))
    # Every one of them has to be good, so the worst counts.
    name = f"killed in mid-send, {runs} times:"
    yield Figure(f"{name} first commit", "s", (max(commits_s),), must=MUST_S, lower=True)
    yield Figure(f"{name} readers held up", "s", (max(held_s),), must=MUST_S, lower=True)


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


def times_s(history: History) -> tuple[list[float], list[float]]:
    """Return for each kill the time to the first commit, and how long readers waited for it."""
    batches, stalls = list(history.all(BatchDone)), list(history.all(ReaderStalled))
    commits_s, held_s = [], []
    for kill in history.all(FaultInjected):
        first = next(each for each in batches if each.at_s > kill.at_s)
        called_s = first.at_s - first.record["total_s"]
        commits_s.append(first.record["total_s"])
        waits_s = [each.at_s - called_s for each in stalls if called_s < each.at_s <= first.at_s]
        held_s.append(max(waits_s, default=0.0))
    return commits_s, held_s
