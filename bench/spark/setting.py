"""The session, the rows and the two sinks that all figures of this folder share."""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from twophase.embedded.fetch import fetch_jars
from twophase.spark.kafka_sink import KafkaSink
from twophase.spark.session import configure_spark

PARTITIONS = 4
TUNED = {
    "kafka.linger.ms": "20",
    "kafka.batch.size": "1000000",
    "kafka.buffer.memory": "268435456",
}
CODEC = "kafka.compression.type"
NOOP = "no sink"
JDBC_JAR = "postgres-jdbc-42.7.7"


@contextmanager
def session() -> Iterator[SparkSession]:
    """Start Spark with two cores; nothing of it runs after."""
    builder = SparkSession.builder.master("local[2]").appName("bench")
    conf = {
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "4",
    }
    for key, value in conf.items():
        builder = builder.config(key, value)
    # A driver of another group's peer: one JVM serves all groups, and its jars are fixed.
    spark = configure_spark(builder, extra_jars=fetch_jars(JDBC_JAR)).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def orders(spark: SparkSession, rows: int) -> DataFrame:
    """Return JSON orders of 100 to 200 bytes with keys, made as they are read."""
    number = sql.col("id")
    customer = sql.concat(sql.lit("customer-"), sql.pmod(number * 7919, sql.lit(100_003)))
    value = sql.concat(
        sql.lit('{"order":'),
        number,
        sql.lit(',"customer":"'),
        customer,
        sql.lit('","item":"'),
        sql.hex(sql.hash(number)),
        sql.lit('","quantity":'),
        sql.pmod(number * 104_729, sql.lit(97)),
        sql.lit(',"cents":'),
        sql.pmod(number * 15_485_863, sql.lit(1_000_003)),
        sql.lit(',"currency":"EUR","at_ms":'),
        sql.lit(1_700_000_000_000) + number * 13,
        sql.lit("}"),
    )
    frame = spark.range(0, rows, 1, PARTITIONS)
    return frame.select(customer.alias("key"), value.alias("value"))


def noise(spark: SparkSession, rows: int) -> DataFrame:
    """Return values of 100 random bytes without keys, made as they are read."""
    digests = [sql.unhex(sql.sha2(sql.concat("id", sql.lit(f"-{at}")), 256)) for at in range(4)]
    value = sql.substring(sql.concat(*digests), 1, 100)
    return spark.range(0, rows, 1, PARTITIONS).select(value.alias("value"))


@dataclass(frozen=True)
class Side:
    """A sink with its settings; Spark's own unless it is said to be ours."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    ours: bool = False
    partitions: int = PARTITIONS
    scope: str = "batch"
    path: str = "auto"

    def write(self, frame: DataFrame, servers: str, topic: str) -> float:
        """Write all rows once and return the seconds it took."""
        options = {"kafka.bootstrap.servers": servers, **self.options}
        start = time.perf_counter()
        if self.name == NOOP:
            frame.write.format("noop").mode("overwrite").save()
        elif self.ours:
            self._write_ours(frame, topic, options)
        else:
            frame.write.format("kafka").options(**options).option("topic", topic).save()
        return time.perf_counter() - start

    def _write_ours(self, frame: DataFrame, topic: str, options: Mapping[str, str]) -> None:
        if self.scope == "batch":
            sink = KafkaSink(sink_id="bench", topic=topic, options=options, path=self.path)
            sink.write(frame, run_id=uuid4().hex)
            return
        # A job of its own each time, as another one that finds decisions of the last would be.
        name = uuid4().hex
        with tempfile.TemporaryDirectory() as decisions:
            sink = KafkaSink(
                sink_id=name, topic=topic, options=options, scope=self.scope, decisions=decisions
            )
            sink.write(frame, run_id=name)

    def stream(
        self,
        frame: DataFrame,
        servers: str,
        topic: str,
        checkpoint: str,
        *,
        until_used_up: bool = True,
    ) -> Any:
        """Start a query that writes the rows as they come, or until there are no more."""
        options = {"kafka.bootstrap.servers": servers, **self.options}
        writer = frame.writeStream.option("checkpointLocation", checkpoint)
        if until_used_up:
            writer = writer.trigger(availableNow=True)
        if self.ours:
            name = uuid4().hex
            sink = KafkaSink(
                sink_id=name, topic=topic, options=options, scope=self.scope, path=self.path
            )
            return writer.foreachBatch(sink).start()
        return writer.format("kafka").options(**options).option("topic", topic).start()


def read_topic(
    spark: SparkSession, servers: str, topic: str, rows_per_batch: int = 2**31 - 1
) -> DataFrame:
    """Return a topic's rows from the beginning, as a stream of batches of this size at most."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .load()
        .select("key", "value")
    )


class Topics:
    """Topics for one run each."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})

    @contextmanager
    def new(self, partitions: int = PARTITIONS) -> Iterator[str]:
        """Make a topic whose partitions all have leaders at work, and delete it after."""
        name = f"bench-{uuid4().hex[:8]}"
        self._admin.create_topics([NewTopic(name, partitions)])[name].result(30)
        self._wait_for_leaders(name, partitions)
        try:
            yield name
        finally:
            self._admin.delete_topics([name])[name].result(30)

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        """Wait for what a broker still does after it has said that a topic is made."""
        due_s = time.monotonic() + 30
        while not self._all_answer(topic, partitions):
            if time.monotonic() > due_s:
                raise TimeoutError(f"{topic} has no leaders after 30 s")
            time.sleep(0.05)

    def _all_answer(self, topic: str, partitions: int) -> bool:
        # A new client each time: one that has seen a topic half made keeps that picture of it.
        client = AdminClient({"bootstrap.servers": self.servers})
        asked = {TopicPartition(topic, at): OffsetSpec.latest() for at in range(partitions)}
        return all(each.exception(10) is None for each in client.list_offsets(asked).values())
