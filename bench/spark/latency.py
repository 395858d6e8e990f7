"""How long a row takes from its arrival in the source topic until a read_committed reader has it.

A producer writes a steady stream of small rows, each with the moment in which it was handed over; a
query copies them, and a reader of the target notes when it has them. All share one clock.
"""

import tempfile
import threading
import time
from collections.abc import Iterator

import numpy as np
from confluent_kafka import Consumer, Producer
from pyspark.sql import SparkSession

from bench.report import Figure
from bench.spark.batch import SPARK
from bench.spark.setting import Side, Topics, read_topic
from bench.turns import turn_by_turn

ROWS_PER_S = 1_000
STEP_S = 0.01
WARM_UP_S, MEASURED_S, DRAIN_S = 10.0, 20.0, 10.0
PERCENTILES = (50, 95, 99)
MUST = {50: 1.3, 99: 1.3}


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
        try:
            reader = _Reader(topics.servers, target)
            reader.start()
            sent = _produce(topics.servers, source)
            reader.expected = sent
            reader.join(DRAIN_S)
        finally:
            query.stop()
    if len(reader.took_s) != sent:
        raise SystemExit(f"{side.name}: {len(reader.took_s)} of {sent} rows have arrived")
    warm = int(WARM_UP_S * ROWS_PER_S)
    return [1000 * took for took in reader.took_s[warm:]]


def _produce(servers: str, topic: str) -> int:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    step = int(ROWS_PER_S * STEP_S)
    steps = int((WARM_UP_S + MEASURED_S) / STEP_S)
    began_s = time.monotonic()
    for at in range(steps):
        time.sleep(max(0.0, began_s + at * STEP_S - time.monotonic()))
        for number in range(step):
            value = f"{time.monotonic()!r}".encode()
            producer.produce(topic, value, f"key-{number % 997}".encode())
        producer.poll(0)
    producer.flush(30)
    return step * steps


class _Reader(threading.Thread):
    """Reads until all expected rows are there, or its time is over."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.expected: int | None = None
        self.took_s: list[float] = []
        settings = {
            "bootstrap.servers": servers,
            "group.id": f"{topic}-reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])

    def run(self) -> None:
        """Note how old each row is when it is read."""
        until_s = time.monotonic() + WARM_UP_S + MEASURED_S + DRAIN_S
        while len(self.took_s) != self.expected and time.monotonic() < until_s:
            for message in self._consumer.consume(1_000, timeout=0.01):
                if message.error() is None:
                    self.took_s.append(time.monotonic() - float(message.value()))
        self._consumer.close()
