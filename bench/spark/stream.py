"""Kafka -> Spark -> Kafka queries of both sinks over the same source, turn by turn."""

import json
import statistics
import tempfile
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from bench.report import Figure
from bench.rows import UNIT
from bench.spark.batch import SPARK, SPARK_TUNED, tuned
from bench.spark.setting import Side, Topics, orders, read_topic

LARGE_ROWS = 500_000
SMALL_ROWS, SMALL_BATCHES, WARM_UP = 10, 60, 20


def measure(spark: SparkSession, topics: Topics, rows: int, runs: int) -> Iterator[Figure]:
    """Measure large batches by their rows per second, small ones by the time in the sink."""
    with topics.new() as source:
        frame = orders(spark, rows)
        Side("filling").write(frame, topics.servers, source)
        large = min(LARGE_ROWS, rows // 4)
        sides = tuned("lz4")
        found: list[list[float]] = [[] for _ in sides]
        for _ in range(runs):
            for values, side in zip(found, sides, strict=True):
                # The first batch starts workers and connections, and warms up the plan.
                later = batches(spark, topics, source, side, large)[1:]
                seconds = sum(each["durationMs"]["triggerExecution"] for each in later) / 1000
                values.append(sum(each["numInputRows"] for each in later) / seconds)
        ours, theirs = (tuple(values) for values in found)
        name = f"orders, Kafka to Kafka, {large:,} rows a batch, lz4"
        yield Figure(name, UNIT, ours, SPARK_TUNED, theirs, 0.85, 1.2)
    with topics.new(1) as source:
        frame = orders(spark, SMALL_ROWS * SMALL_BATCHES)
        Side("filling").write(frame, topics.servers, source)
        sides = (Side("twophase", ours=True), Side(SPARK))
        found = [[] for _ in sides]
        for _ in range(runs):
            for values, side in zip(found, sides, strict=True):
                later = batches(spark, topics, source, side, SMALL_ROWS)[WARM_UP:]
                values.append(statistics.median(each["durationMs"]["addBatch"] for each in later))
        ours, theirs = (tuple(values) for values in found)
        name = f"{SMALL_ROWS} rows a batch, time in the sink (p50)"
        yield Figure(name, "ms", ours, SPARK, theirs, 2.5, 1.5, lower=True)


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
