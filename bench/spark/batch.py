"""Batch writes of the same rows by both sinks, turn by turn, each to a new topic."""

from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from bench.report import Figure
from bench.rows import UNIT
from bench.spark.memory import worker_peak_mb
from bench.spark.setting import CODEC, NOOP, TUNED, Side, Topics, noise, orders
from bench.turns import turn_by_turn

SPARK, SPARK_TUNED = "Spark's sink", "Spark's sink, tuned"
WIDE = 64
# The first figure finds JVMs that still compile what they run, for some ten seconds of work.
FIRST_WARM_UP = 5
# So does the first one with many partitions: the broker's own work with them is new to its JVM.
WIDE_WARM_UP = 5
TASK = "task"


def tuned(codec: str) -> tuple[Side, Side, Side]:
    """Return both scopes and Spark's sink with one codec, Spark's with settings for throughput."""
    ours = Side("twophase", {CODEC: codec}, ours=True)
    return ours, replace(ours, scope=TASK), Side(SPARK_TUNED, {**TUNED, CODEC: codec})


def measure(spark: SparkSession, topics: Topics, rows: int, runs: int) -> Iterator[Figure]:
    """Measure orders and noise, wide topics, and what a Python worker takes at most."""

    def compared(frame: DataFrame, *sides: Side, warm_up: int = 1) -> list[tuple[float, ...]]:
        def rows_per_s(side: Side) -> float:
            with topics.new(side.partitions) as topic:
                return rows / side.write(frame, topics.servers, topic)

        return turn_by_turn(sides, runs, rows_per_s, warm_up=warm_up)

    frame = orders(spark, rows)
    ours = Side("twophase", ours=True)
    sides = (Side(NOOP), ours, replace(ours, scope=TASK), Side(SPARK))
    nothing, *three = compared(frame, *sides, warm_up=FIRST_WARM_UP)
    yield Figure("orders, made and thrown away", UNIT, nothing)
    yield from by_scope("orders, batch write, defaults", three, SPARK, 1.5, 2.0)
    yield from by_scope(
        "orders, batch write, lz4", compared(frame, *tuned("lz4")), SPARK_TUNED, 0.9, 1.3
    )
    yield from by_scope("orders, batch write, zstd", compared(frame, *tuned("zstd")), SPARK_TUNED)
    for narrow in tuned("lz4")[:2]:
        wide, few = compared(frame, replace(narrow, partitions=WIDE), narrow, warm_up=WIDE_WARM_UP)
        name = f"orders, {WIDE} partitions, lz4, {narrow.scope} scope"
        yield Figure(name, UNIT, wide, "4 partitions", few, 0.8, 0.9)
    both = compared(noise(spark, rows), *tuned("lz4"))
    yield from by_scope("noise, batch write, lz4", both, SPARK_TUNED, 0.7, 1.0)
    peak = (worker_peak_mb(),)
    yield Figure("peak memory of a Python worker", "MB", peak, must=300, aim=200, lower=True)


def by_scope(
    name: str,
    found: list[tuple[float, ...]],
    peer: str,
    must: float | None = None,
    aim: float | None = None,
) -> Iterator[Figure]:
    """Yield what both scopes reached beside the same runs of a peer."""
    batch, task, theirs = found
    yield Figure(f"{name}, batch scope", UNIT, batch, peer, theirs, must, aim)
    yield Figure(f"{name}, task scope", UNIT, task, peer, theirs, must, aim)
