"""Where the time goes: processor seconds of every process that takes part in a batch write.

Unlike the time of day they hardly depend on what else the machine does.
"""

import os
from collections import Counter
from collections.abc import Iterator

from pyspark.sql import SparkSession

from bench.report import Figure
from bench.spark.batch import SPARK, SPARK_TUNED, WAYS, tuned, ways
from bench.spark.roles import BROKER, DRIVER, JVM, WORKER, roles
from bench.spark.setting import NOOP, Side, Topics, orders
from bench.turns import turn_by_turn

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
UNIT = "processor s"
Spent = tuple[Counter[str], ...]


def measure(spark: SparkSession, topics: Topics, rows: int, runs: int) -> Iterator[Figure]:
    """Measure the same orders thrown away and written by both sinks, turn by turn."""
    frame = orders(spark, rows)

    def spent(side: Side) -> Counter[str]:
        with topics.new() as topic:
            before = spent_s()
            side.write(frame, topics.servers, topic)
            return spent_s() - before

    sides = (Side(NOOP), *ways(), Side(SPARK), *tuned("lz4"))
    nothing, *written = turn_by_turn(sides, runs, spent, warm_up=1)
    each = len(WAYS) + 1
    yield Figure("orders, made and thrown away: all processes", UNIT, totals(nothing), lower=True)
    for codec, peer, (*mine, theirs) in (
        ("defaults", SPARK, written[:each]),
        ("lz4", SPARK_TUNED, written[each:]),
    ):
        for way, our in zip(WAYS, mine, strict=True):
            name = f"orders, batch write, {codec}, {way}: all processes"
            yield Figure(name, UNIT, totals(our), peer, totals(theirs), lower=True)
    yield from by_role(*written[each:])


def by_role(*found: Spent) -> Iterator[Figure]:
    """Yield what each kind of process used, where codecs are the same."""
    *ours, theirs = found
    for way, mine in zip(WAYS, ours, strict=True):
        for role in (JVM, WORKER, DRIVER, BROKER):
            our, their = (tuple(run[role] for run in side) for side in (mine, theirs))
            peer = (SPARK_TUNED, their) if all(their) else ()
            name = f"orders, batch write, lz4, {way}: {role}"
            yield Figure(name, UNIT, our, *peer, lower=True)


def totals(runs: Spent) -> tuple[float, ...]:
    """Return what all processes used together, run by run."""
    return tuple(run.total() for run in runs)


def spent_s() -> Counter[str]:
    """Return what the processes have used so far, by what they are."""
    spent: Counter[str] = Counter()
    for role, folder in roles():
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        spent[role] += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return spent
