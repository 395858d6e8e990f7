"""Where the time goes: processor seconds of every process that takes part in a batch write.

Unlike the time of day they hardly depend on what else the machine does.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from bench.report import Figure
from bench.spark.batch import SPARK_TUNED, tuned
from bench.spark.setting import NOOP, Side, Topics, orders
from twophase.verify.processes import descendants

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# What a command line holds, and what the process is.
ROLES = (
    ("pyspark.daemon", "Python workers"),
    ("kafka.Kafka", "broker"),
    ("org.apache.spark.deploy.SparkSubmit", "Spark's JVM"),
)
UNIT = "processor s"


def measure(spark: SparkSession, topics: Topics, rows: int, runs: int) -> Iterator[Figure]:
    """Measure the same orders thrown away and written by both sinks, turn by turn."""
    ours, theirs = tuned("lz4")
    sides = (Side(NOOP), ours, theirs)
    frame = orders(spark, rows)
    found: list[list[dict[str, float]]] = [[] for _ in sides]
    for _ in range(runs + 1):
        for values, side in zip(found, sides, strict=True):
            with topics.new() as topic:
                before = spent_s()
                side.write(frame, topics.servers, topic)
                after = spent_s()
            values.append({role: after[role] - before.get(role, 0.0) for role in after})
    nothing, our, their = (values[1:] for values in found)
    totals = [tuple(sum(run.values()) for run in values) for values in (nothing, our, their)]
    yield Figure("orders, made and thrown away: all processes", UNIT, totals[0], lower=True)
    name = "orders, batch write, lz4: all processes"
    yield Figure(name, UNIT, totals[1], SPARK_TUNED, totals[2], lower=True)
    for _, role in ROLES:
        parts = [tuple(run.get(role, 0.0) for run in values) for values in (our, their)]
        name = f"orders, batch write, lz4: {role}"
        peer = (SPARK_TUNED, parts[1]) if min(parts[1]) > 0 else ()
        yield Figure(name, UNIT, parts[0], *peer, lower=True)


def spent_s() -> dict[str, float]:
    """Return what the processes below this one have used so far, by what they are."""
    spent = dict.fromkeys((role for _, role in ROLES), 0.0)
    for each in descendants(os.getpid()):
        folder = Path(f"/proc/{each.pid}")
        command = (folder / "cmdline").read_text()
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        for mark, role in ROLES:
            if mark in command:
                spent[role] += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return spent
