"""`python -m bench growth`: how rows per second and memory follow the size of the work.

Batch writes of the sink with its defaults, for batches, topics and rows of growing size; the best
of a few runs each. Writes build/growth.json, and a plot of each into docs; ends with 1 where time
or memory grew faster than the work.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from bench.bars import Bar, Plot, picture
from bench.broker import broker
from bench.report import machine
from bench.spark.memory import driver_peak_mb, forget_peaks, worker_peak_mb
from bench.spark.setting import PARTITIONS, Side, Topics, orders, session

ROOT = Path(__file__).parent.parent
BATCHES = (10, 1_000, 100_000, 2_000_000, 10_000_000)
TOPICS = (1, 4, 64, 200)
VALUES = (10, 100, 1_000, 100_000)
# As many bytes for rows of every size, as far as there are not too many of them.
VALUE_BYTES, VALUE_ROWS = 200_000_000, 4_000_000
NUMBER_BYTES = 10
RUNS = 6
# What runs on a shared machine differ by.
SLACK = 1.25


@dataclass(frozen=True, slots=True)
class Point:
    """One size of the work: what was measured there."""

    size: int
    rows: int
    rows_per_s: float
    worker_mb: float
    driver_mb: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.rows / self.rows_per_s


Work = Callable[[Point], float]


def values(spark: SparkSession, size: int) -> DataFrame:
    """Return rows of this many bytes without keys: a number, and digits that repeat."""
    rows = min(VALUE_ROWS, VALUE_BYTES // size)
    # A text to copy, as `lpad` would take longer to make long ones than any sink to write them.
    digits = ("0123456789" * (size // 10))[NUMBER_BYTES:]
    text = sql.concat(sql.lpad(sql.col("id").cast("string"), NUMBER_BYTES, "0"), sql.lit(digits))
    return spark.range(0, rows, 1, PARTITIONS).select(text.alias("value"))


def measured(topics: Topics, frame: DataFrame, size: int, partitions: int = PARTITIONS) -> Point:
    """Write the frame a few times; the first run warms up."""
    side, rows, took_s = Side("twophase", ours=True), frame.count(), []
    for at in range(RUNS):
        if at == 1:
            forget_peaks()
        with topics.new(partitions) as topic:
            took_s.append(side.write(frame, topics.servers, topic))
    point = Point(size, rows, rows / min(took_s[1:]), worker_peak_mb(), driver_peak_mb())
    print(point, flush=True)
    return point


def curves(spark: SparkSession, topics: Topics) -> Iterator[tuple[str, str, Work, list[Point]]]:
    """Measure one size after the other: a file name, a title, what the work is, and the points."""
    yield (
        "batch",
        "rows in a batch",
        lambda point: point.rows,
        [measured(topics, orders(spark, size), size) for size in BATCHES],
    )
    million = orders(spark, 1_000_000)
    yield (
        "partitions",
        "partitions of the topic",
        lambda point: point.size,
        [measured(topics, million, size, size) for size in TOPICS],
    )
    yield (
        "values",
        "bytes in a value",
        lambda point: point.rows * point.size,
        [measured(topics, values(spark, size), size) for size in VALUES],
    )


def too_fast(title: str, work: Work, points: Sequence[Point]) -> Iterator[str]:
    """Yield what grew faster than the work from one point to the next."""
    for less, more in pairwise(points):
        most = SLACK * max(1.0, work(more) / work(less))
        for what, of in (
            ("the time", lambda point: point.seconds),
            ("a Python worker's memory", lambda point: point.worker_mb),
            ("the driver's memory", lambda point: point.driver_mb),
        ):
            grew = of(more) / of(less)
            if grew > most:
                sizes = f"from {less.size:,} to {more.size:,} {title}"
                yield f"{sizes}: {what} is {grew:.2f} times, at most {most:.2f} times is allowed"


def growth() -> None:
    """Measure all and write what was found."""
    report: dict[str, object] = {"machine": machine()}
    missed: list[str] = []
    with broker() as kafka, session() as spark:
        for name, title, work, points in curves(spark, Topics(kafka.bootstrap_servers)):
            report[name] = [asdict(point) for point in points]
            missed += too_fast(title, work, points)
            (ROOT / "docs" / f"growth-{name}.svg").write_text(drawn(title, points))
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "growth.json").write_text(json.dumps(report, indent=2) + "\n")
    print("\n".join(missed) or "nothing grew faster than the work")
    sys.exit(1 if missed else 0)


def drawn(title: str, points: list[Point]) -> str:
    """Return speed and memory by the size of the work as one picture."""

    def plot(name: str, of: Callable[[Point], float]) -> Plot:
        bars = [Bar(f"{point.size:,}", of(point)) for point in points]
        return Plot(f"{name}, by {title}", bars)

    return picture(
        [
            plot("Rows per second", lambda point: point.rows_per_s),
            plot("Peak memory of a Python worker in MB", lambda point: point.worker_mb),
            plot("Peak memory of the driver's Python in MB", lambda point: point.driver_mb),
        ]
    )
