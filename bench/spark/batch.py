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
# The last is how batch scope goes on a cluster, whose workers share no disk with the driver.
WAYS = {
    "batch scope": {},
    "task scope": {"scope": TASK},
    "batch scope, routed": {"path": "routed"},
}


def ways(codec: str | None = None) -> tuple[Side, ...]:
    """Return every way of ours, with a codec or the default."""
    ours = Side("twophase", {} if codec is None else {CODEC: codec}, ours=True)
    return tuple(replace(ours, **way) for way in WAYS.values())


def tuned(codec: str) -> tuple[Side, ...]:
    """Return every way of ours, and Spark's sink with settings for throughput, with one codec."""
    return *ways(codec), Side(SPARK_TUNED, {**TUNED, CODEC: codec})


def measure(spark: SparkSession, topics: Topics, rows: int, runs: int) -> Iterator[Figure]:
    """Measure orders and noise, wide topics, and what a Python worker takes at most."""

    def compared(frame: DataFrame, *sides: Side, warm_up: int = 1) -> list[tuple[float, ...]]:
        def rows_per_s(side: Side) -> float:
            with topics.new(side.partitions) as topic:
                return rows / side.write(frame, topics.servers, topic)

        return turn_by_turn(sides, runs, rows_per_s, warm_up=warm_up)

    frame = orders(spark, rows)
    sides = (Side(NOOP), *ways(), Side(SPARK))
    nothing, *others = compared(frame, *sides, warm_up=FIRST_WARM_UP)
    yield Figure("orders, made and thrown away", UNIT, nothing)
    yield from by_way("orders, batch write, defaults", others, SPARK, 1.5, 2.0)
    yield from by_way(
        "orders, batch write, lz4", compared(frame, *tuned("lz4")), SPARK_TUNED, 0.9, 1.3
    )
    yield from by_way("orders, batch write, zstd", compared(frame, *tuned("zstd")), SPARK_TUNED)
    for narrow in tuned("lz4")[:2]:
        wide, few = compared(frame, replace(narrow, partitions=WIDE), narrow, warm_up=WIDE_WARM_UP)
        name = f"orders, {WIDE} partitions, lz4, {narrow.scope} scope"
        yield Figure(name, UNIT, wide, "4 partitions", few, 0.8, 0.9)
    both = compared(noise(spark, rows), *tuned("lz4"))
    yield from by_way("noise, batch write, lz4", both, SPARK_TUNED, 0.7, 1.0)
    peak = (worker_peak_mb(),)
    yield Figure("peak memory of a Python worker", "MB", peak, must=300, aim=200, lower=True)


def by_way(
    name: str,
    found: list[tuple[float, ...]],
    peer: str,
    must: float | None = None,
    aim: float | None = None,
) -> Iterator[Figure]:
    """Yield what each way reached beside the same runs of a peer.

    The routed one has nothing to reach: on one machine nobody takes it.
    """
    *ours, theirs = found
    for way, mine in zip(WAYS, ours, strict=True):
        asked = (must, aim) if way != "batch scope, routed" else ()
        yield Figure(f"{name}, {way}", UNIT, mine, peer, theirs, *asked)
