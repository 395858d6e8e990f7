"""The source's progress goes into the batch's transaction: visible with its rows, never without."""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient
from support.readers import values, wait_until_ended
from support.streams import Files, run

from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.kafka.store import KafkaStore
from twophase.spark.kafka_sink import KafkaSink


@pytest.fixture
def source(kafka, make_topic):
    return make_topic(kafka, partitions=2)


@pytest.fixture
def target(kafka, make_topic):
    return make_topic(kafka, partitions=1)


def fill(kafka, source, count):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(count):
        producer.produce(source, f"{number}".encode(), partition=number % 2)
    assert producer.flush(30) == 0


def stream(spark, kafka, source):
    reader = spark.readStream.format("kafka").option("subscribe", source)
    reader = reader.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    return reader.option("startingOffsets", "earliest").load().select("key", "value")


def progress(kafka, group):
    """What another library says that the group has committed, by partition."""
    wait_until_ended(kafka.bootstrap_servers)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(asked)[group].result(30).topic_partitions
    return {(place.topic, place.partition): place.offset for place in found}


def make_sink(kafka, target, group):
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    return KafkaSink(sink_id=f"sg-{target}", topic=target, options=options, source_group=group)


def test_progress_is_committed_with_the_rows(spark, kafka, source, target, tmp_path, monkeypatch):
    """A batch whose commit fails leaves the group as it was; the next try moves both together."""
    group = f"group-{target}"
    fill(kafka, source, 6)
    run(stream(spark, kafka, source), make_sink(kafka, target, group), tmp_path / "c")
    assert progress(kafka, group) == {(source, 0): 3, (source, 1): 3}
    fill(kafka, source, 3)

    def fails(*_args):
        raise StoreUnavailable("the network is gone")

    with monkeypatch.context() as patched:
        patched.setattr(KafkaStore, "commit", fails)
        with pytest.raises(Exception, match="the network is gone"):
            run(stream(spark, kafka, source), make_sink(kafka, target, group), tmp_path / "c")
    assert progress(kafka, group) == {(source, 0): 3, (source, 1): 3}
    assert len(values(kafka.bootstrap_servers, target)) == 6
    run(stream(spark, kafka, source), make_sink(kafka, target, group), tmp_path / "c")
    assert progress(kafka, group) == {(source, 0): 5, (source, 1): 4}
    assert len(values(kafka.bootstrap_servers, target)) == 9


def test_a_source_that_is_not_kafka_is_refused_by_name(spark, kafka, target, tmp_path):
    """There are no offsets to commit; said before anything is written."""
    files = Files(spark, tmp_path / "in", "v string")
    files.add({"v": "never"})
    with pytest.raises(Exception, match="names no Kafka source; leave source_group out"):
        run(files.frame().selectExpr("v AS value"), make_sink(kafka, target, "g"), tmp_path / "c")
    assert values(kafka.bootstrap_servers, target, committed=False) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"source_group": ""}, "source_group is ''; allowed is the name of a consumer group"),
        ({"source_group": "twophase.x"}, "does not begin with twophase."),
        ({"source_group": "g", "guarantee": "none"}, "source_group is given with the guarantee no"),
    ],
)
def test_a_wrong_group_is_refused_when_the_sink_is_made(more, said):
    """Before any query starts."""
    options = {"kafka.bootstrap.servers": "x:1"}
    with pytest.raises(ConfigurationError, match=said):
        KafkaSink(sink_id="s", topic="t", options=options, **more)
