"""How long a row takes from its arrival in the source topic until a read_committed reader has it.

A query copies rows from topic to topic; load.py writes and reads them.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np
from pyspark.sql import SparkSession

from bench.report import Figure
from bench.spark.batch import SPARK
from bench.spark.load import DRAIN_S, MEASURED_S, ROWS_PER_S, WARM_UP_S
from bench.spark.setting import Side, Topics, read_topic
from bench.turns import turn_by_turn

PERCENTILES = (50, 95, 99)
MUST = {50: 1.3, 99: 1.3}
LOAD_S = WARM_UP_S + MEASURED_S + 2 * DRAIN_S


def measure(spark: SparkSession, topics: Topics, runs: int) -> Iterator[Figure]:
    """Measure both sinks turn by turn."""

    def percentiles(side: Side) -> list[float]:
        took_ms = latencies_ms(spark, topics, side)
        return [float(np.percentile(took_ms, at)) for at in PERCENTILES]

    found = turn_by_turn((Side("twophase", ours=True), Side(SPARK)), runs, percentiles)
    for index, percentile in enumerate(PERCENTILES):
        ours, theirs = (tuple(run[index] for run in values) for values in found)
        name = f"source to reader at {ROWS_PER_S:,} rows/s, p{percentile}"
        yield Figure(name, "ms", ours, SPARK, theirs, MUST.get(percentile), lower=True)


def latencies_ms(spark: SparkSession, topics: Topics, side: Side) -> list[float]:
    """Run one query while rows come, and return how long each took after the warm-up."""
    with (
        topics.new() as source,
        topics.new() as target,
        tempfile.TemporaryDirectory() as checkpoint,
    ):
        frame = read_topic(spark, topics.servers, source)
        query = side.stream(frame, topics.servers, target, checkpoint, until_used_up=False)
        load = [sys.executable, "-m", "bench.spark.load", topics.servers, source, target]
        try:
            done = subprocess.run(load, capture_output=True, text=True, timeout=LOAD_S, check=True)
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{side.name}: {error.stderr}") from None
        finally:
            query.stop()
    return [1000 * took for took in json.loads(done.stdout)]
