"""Kafka to Spark to Kafka where every listener asks who is there, and rights are few."""

from uuid import uuid4

import pytest
from confluent_kafka import Producer
from support.rights import names, rights_of
from support.secured import Right, SuperUser, prefixed
from support.streams import run

from twophase.embedded import EmbeddedKafka
from twophase.spark.kafka_sink import KafkaSink

WAYS = [("SASL_SSL", "SCRAM-SHA-512"), ("SASL_SSL", "PLAIN"), ("SSL", "PLAIN")]


@pytest.fixture(scope="module")
def secured():
    with EmbeddedKafka(users={"etl": "password of etl"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def super_user(secured):
    return SuperUser(secured)


class Pipeline:
    """A query from one topic to another as `etl`, with exactly the rights that it needs.

    `apart`: its marker is in a topic of its own, and every fifth row is a dead letter.
    """

    def __init__(self, spark, super_user, folder, options, *, apart=False, **sink):
        self.spark, self.super_user, self.options = spark, super_user, options
        self.source, self.target = super_user.make_topic(2), super_user.make_topic(2)
        self.sink_id, self.sink, self.checkpoint = f"sink-{uuid4().hex[:8]}", sink, folder / "c"
        self.marker, self.dead = self.target, None
        letters = ()
        if apart:
            self.marker, self.dead = super_user.make_topic(), super_user.make_topic()
            letters = rights_of("dead letters", letters=self.dead)
            sink |= {"marker_topic": self.marker, "dead_letter_topic": self.dead}
            sink["on_reject"] = "dead-letter"
        scope = f"{sink.get('scope', 'batch')} scope"
        listed = rights_of(scope, topic=self.target, marker=self.marker, sink=self.sink_id)
        source = (Right("READ", "topic", self.source),)
        if group := sink.get("source_group"):
            source = rights_of("source", source=self.source, group=group)
        self.rights = (*source, *listed, *letters)
        super_user.grant("etl", *self.rights)
        self.count = 0

    def add(self, count):
        producer = Producer(self.super_user.settings)
        for number in range(self.count, self.count + count):
            producer.produce(self.source, f"{number}".encode(), partition=number % 2)
        assert producer.flush(30) == 0
        self.count += count

    def run(self):
        reader = self.spark.readStream.format("kafka").options(**self.options)
        reader = reader.option("subscribe", self.source).option("startingOffsets", "earliest")
        sink = KafkaSink(sink_id=self.sink_id, topic=self.target, options=self.options, **self.sink)
        columns = ["key", "value"]
        if self.dead:
            columns.append("IF(CAST(CAST(value AS STRING) AS INT) % 5 = 0, 99, NULL) AS partition")
        run(reader.load().selectExpr(*columns), sink, self.checkpoint)

    def is_whole(self):
        found = sorted(int(value) for value in self.super_user.values(self.target))
        assert found == [at for at in range(self.count) if not self.dead or at % 5]
        if self.dead:
            letters = sorted(int(value) for value in self.super_user.values(self.dead))
            assert letters == list(range(0, self.count, 5))
            assert self.super_user.values(self.marker) == []


@pytest.mark.long
@pytest.mark.parametrize("how", [{}, {"path": "routed"}, {"scope": "task"}])
@pytest.mark.parametrize("way", WAYS)
def test_source_and_sink_work_over_each(spark, secured, super_user, tmp_path, way, how):
    """By password over TLS and by certificate, with exactly the rights of docs/security.md."""
    pipeline = Pipeline(
        spark, super_user, tmp_path, prefixed(secured.client_options("etl", *way)), **how
    )
    for _ in range(2):
        pipeline.add(40)
        pipeline.run()
    pipeline.is_whole()


@pytest.mark.long
@pytest.mark.parametrize(
    "how",
    [
        {"path": "routed", "source_group": "etl-progress"},
        {},
        {"apart": True},
        {"apart": True, "path": "routed"},
        {"apart": True, "scope": "task"},
    ],
)
def test_a_query_goes_on_after_the_grant(spark, secured, super_user, tmp_path, how):
    """Without any one right it stops and names it; started after the grant, no row is missing."""
    options = prefixed(secured.client_options("etl"), max_block_ms=10_000, request_timeout_ms=5_000)
    options["kafka.default.api.timeout.ms"] = "10000"
    pipeline = Pipeline(spark, super_user, tmp_path, options, **how)
    pipeline.add(10)
    pipeline.run()
    for right in pipeline.rights:
        pipeline.add(10)
        super_user.revoke("etl", right)
        with pytest.raises(Exception, match=r"\S") as caught:
            pipeline.run()
        said = str(caught.value)
        # Spark's own source has its own words.
        own = right.name == pipeline.source and "Topic authorization failed" in said
        assert own or names(right, said), f"{right}: {said}"
        super_user.grant("etl", right)
        pipeline.run()
        pipeline.is_whole()
