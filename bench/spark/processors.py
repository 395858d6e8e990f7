"""Where the time goes: processor seconds of every process that takes part in a batch write.

Unlike the time of day they hardly depend on what else the machine does.
"""

import os
from collections import Counter
from collections.abc import Iterator

from pyspark.sql import SparkSession

from bench.report import Figure
from bench.spark.batch import SPARK, SPARK_TUNED, tuned
from bench.spark.roles import BROKER, JVM, WORKER, roles
from bench.spark.setting import NOOP, Side, Topics, orders
from bench.turns import turn_by_turn

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
UNIT = "processor s"


def measure(spark: SparkSession, topics: Topics, rows: int, runs: int) -> Iterator[Figure]:
    """Measure the same orders thrown away and written by both sinks, turn by turn."""
    frame = orders(spark, rows)

    def spent(side: Side) -> Counter[str]:
        with topics.new() as topic:
            before = spent_s()
            side.write(frame, topics.servers, topic)
            return spent_s() - before

    sides = (Side(NOOP), Side("twophase", ours=True), Side(SPARK), *tuned("lz4"))
    found = turn_by_turn(sides, runs, spent, warm_up=1)
    nothing, our_own, their_own, *both = (tuple(run.total() for run in side) for side in found)
    yield Figure("orders, made and thrown away: all processes", UNIT, nothing, lower=True)
    name = "orders, batch write, {}: all processes"
    yield Figure(name.format("defaults"), UNIT, our_own, SPARK, their_own, lower=True)
    yield Figure(name.format("lz4"), UNIT, both[0], SPARK_TUNED, both[1], lower=True)
    *_, ours, theirs = found
    for role in (JVM, WORKER, BROKER):
        our, their = (tuple(run[role] for run in side) for side in (ours, theirs))
        peer = (SPARK_TUNED, their) if any(their) else ()
        yield Figure(f"orders, batch write, lz4: {role}", UNIT, our, *peer, lower=True)


def spent_s() -> Counter[str]:
    """Return what the processes below this one have used so far, by what they are."""
    spent: Counter[str] = Counter()
    for role, folder in roles():
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        spent[role] += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return spent
