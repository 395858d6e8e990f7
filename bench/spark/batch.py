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


def tuned(codec: str) -> tuple[Side, Side]:
    """Return both sinks with the same codec, Spark's with its settings for throughput."""
    return Side("twophase", {CODEC: codec}, ours=True), Side(SPARK_TUNED, {**TUNED, CODEC: codec})


def measure(spark: SparkSession, topics: Topics, rows: int, runs: int) -> Iterator[Figure]:
    """Measure orders and noise, wide topics, and what a Python worker takes at most."""

    def compared(frame: DataFrame, *sides: Side, warm_up: int = 1) -> list[tuple[float, ...]]:
        def rows_per_s(side: Side) -> float:
            with topics.new(side.partitions) as topic:
                return rows / side.write(frame, topics.servers, topic)

        return turn_by_turn(sides, runs, rows_per_s, warm_up=warm_up)

    frame = orders(spark, rows)
    defaults = (Side(NOOP), Side("twophase", ours=True), Side(SPARK))
    nothing, ours, theirs = compared(frame, *defaults, warm_up=FIRST_WARM_UP)
    yield Figure("orders, made and thrown away", UNIT, nothing)
    yield Figure("orders, batch write, defaults", UNIT, ours, SPARK, theirs, 1.5, 2.0)
    for codec, must, aim in (("lz4", 0.9, 1.3), ("zstd", None, None)):
        ours, theirs = compared(frame, *tuned(codec))
        yield Figure(f"orders, batch write, {codec}", UNIT, ours, SPARK_TUNED, theirs, must, aim)
    narrow, _ = tuned("lz4")
    ours, few = compared(frame, replace(narrow, partitions=WIDE), narrow)
    yield Figure(f"orders, {WIDE} partitions, lz4", UNIT, ours, "4 partitions", few, 0.8, 0.9)
    ours, theirs = compared(noise(spark, rows), *tuned("lz4"))
    yield Figure("noise, batch write, lz4", UNIT, ours, SPARK_TUNED, theirs, 0.7, 1.0)
    peak = (worker_peak_mb(),)
    yield Figure("peak memory of a Python worker", "MB", peak, must=300, aim=200, lower=True)
