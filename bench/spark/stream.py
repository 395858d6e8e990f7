"""Kafka -> Spark -> Kafka queries of both sinks over the same source, turn by turn."""

import json
import statistics
import tempfile
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from bench.report import Figure
from bench.spark.batch import SPARK, SPARK_TUNED, by_way, tuned
from bench.spark.setting import Side, Topics, orders, read_topic
from bench.turns import turn_by_turn

LARGE_ROWS, LARGE_BATCHES, LARGE_WARM_UP, LARGE_END = 500_000, 10, 2, 2
SMALL_ROWS, SMALL_BATCHES, WARM_UP = 10, 60, 20


def measure(spark: SparkSession, topics: Topics, rows: int, runs: int) -> Iterator[Figure]:
    """Measure large batches by their rows per second, small ones by the time in the sink."""
    yield from large(spark, topics, rows, runs)
    yield small(spark, topics, runs)


def large(spark: SparkSession, topics: Topics, rows: int, runs: int) -> Iterator[Figure]:
    """Measure rows per second of batches that go over the executors."""
    size = min(LARGE_ROWS, rows // 4)
    with topics.new() as source:
        Side("filling").write(orders(spark, size * LARGE_BATCHES), topics.servers, source)

        def rows_per_s(side: Side) -> float:
            # The first batches start workers and connections, and compile their plans: the first
            # one's, and that of those after it, which know how large rows are. The last ones have
            # few rows, or wait at the end of the source for more of them.
            later = batches(spark, topics, source, side, size)[LARGE_WARM_UP:-LARGE_END]
            seconds = sum(each["durationMs"]["triggerExecution"] for each in later) / 1000
            return sum(each["numInputRows"] for each in later) / seconds

        found = turn_by_turn(tuned("lz4"), runs, rows_per_s)
    name = f"orders, Kafka to Kafka, {size:,} rows a batch, lz4"
    yield from by_way(name, found, SPARK_TUNED, 0.85, 1.2)


def small(spark: SparkSession, topics: Topics, runs: int) -> Figure:
    """Measure the time in the sink of batches that go through the driver."""
    with topics.new(1) as source:
        frame = orders(spark, SMALL_ROWS * SMALL_BATCHES)
        Side("filling").write(frame, topics.servers, source)

        def median_ms(side: Side) -> float:
            later = batches(spark, topics, source, side, SMALL_ROWS)[WARM_UP:]
            return statistics.median(each["durationMs"]["addBatch"] for each in later)

        sides = (Side("twophase", ours=True), Side(SPARK))
        ours, theirs = turn_by_turn(sides, runs, median_ms)
    name = f"{SMALL_ROWS} rows a batch, time in the sink (p50)"
    return Figure(name, "ms", ours, SPARK, theirs, 2.5, 1.5, lower=True)


def batches(
    spark: SparkSession, topics: Topics, source: str, side: Side, rows: int
) -> list[dict[str, Any]]:
    """Copy the source to a new topic, and return what Spark says of each batch that had rows."""
    with topics.new() as target, tempfile.TemporaryDirectory() as checkpoint:
        frame = read_topic(spark, topics.servers, source, rows)
        query = side.stream(frame, topics.servers, target, checkpoint)
        query.awaitTermination()
        progress = [json.loads(each.json) for each in query.recentProgress]
    return [each for each in progress if each["numInputRows"]]
