"""`python -m bench growth`: how rows per second and memory follow the size of the work.

Batch writes of the sink with its defaults, for batches, topics and rows of growing size; the best
of a few runs each. Writes build/growth.json, and a plot of each into docs.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
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
RUNS = 3


@dataclass(frozen=True, slots=True)
class Point:
    """One size of the work: what was measured there."""

    size: int
    rows: int
    rows_per_s: float
    worker_mb: float
    driver_mb: float


def values(spark: SparkSession, size: int) -> DataFrame:
    """Return rows of this many bytes without keys, half of them digits that repeat."""
    rows = min(VALUE_ROWS, VALUE_BYTES // size)
    text = sql.lpad(sql.col("id").cast("string"), size, "0123456789")
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


def curves(spark: SparkSession, topics: Topics) -> Iterator[tuple[str, str, list[Point]]]:
    """Measure one size after the other: a file name, a title, and the points."""
    yield (
        "batch",
        "rows in a batch",
        [measured(topics, orders(spark, size), size) for size in BATCHES],
    )
    million = orders(spark, 1_000_000)
    yield (
        "partitions",
        "partitions of the topic",
        [measured(topics, million, size, size) for size in TOPICS],
    )
    yield (
        "values",
        "bytes in a value",
        [measured(topics, values(spark, size), size) for size in VALUES],
    )


def growth() -> None:
    """Measure all and write what was found."""
    report: dict[str, object] = {"machine": machine()}
    with broker() as kafka, session() as spark:
        for name, title, points in curves(spark, Topics(kafka.bootstrap_servers)):
            report[name] = [asdict(point) for point in points]
            (ROOT / "docs" / f"growth-{name}.svg").write_text(drawn(title, points))
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "growth.json").write_text(json.dumps(report, indent=2) + "\n")


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
