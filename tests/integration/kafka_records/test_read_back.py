"""What was encoded is read back from a real broker, by the Java client and by librdkafka."""

import random

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from integration.kafka_records.java import ask_java
from integration.kafka_records.writing import produce
from support.readers import read
from support.rows import now_ms
from unit.kafka_records.decoding import Record
from unit.kafka_records.modelling import Kinds, Row, arbitrary, batch_of

from twophase.kafka.blocks import stamp
from twophase.kafka.compression import Codec
from twophase.kafka.partitioner import murmur2, partitions_of
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode

ROWS = 800
PARTITIONS = 3
# Rows as old as 1970 and newer than now: neither may be refused nor be swept away.
ANY_AGE = {"retention_ms": -1, "message_timestamp_after_max_ms": 2**63 - 1}


def written(rows, plan, wire, now):
    """Encode and send the rows, and return what a reader must see, by partition and in order."""
    blocks = list(encode(batch_of(rows, Kinds(topic=None)), plan, now_ms=now, spread_from=3))
    produce(wire, blocks)
    return blocks


def model(rows, now):
    """Return what a reader must see of each row; the value or the key tells the rows apart."""
    found = {}
    for number, row in enumerate(rows):
        when = now if row.timestamp is None else row.timestamp
        found[Record(row.key, row.value, row.headers or (), when)] = number
    assert len(found) == len(rows)
    return found


def check(rows, now, found):
    """Every row was read once, in order per partition, in the partition it must be in."""
    index = model(rows, now)
    places = [(partition, index[record]) for partition, record in found]
    assert sorted(number for _, number in places) == list(range(len(rows)))
    assert places == sorted(places)
    keyed = [(partition, rows[number]) for partition, number in places]
    for partition, row in keyed:
        if row.partition is not None:
            assert partition == row.partition
        elif row.key is not None:
            assert partition == partitions_of(pa.array([row.key], pa.binary()), PARTITIONS)[0]


def test_all_codecs_and_both_readers(kafka, wire, make_topic, tmp_path):
    """Key, value, headers, timestamp, partition and order are the same for both readers.

    Rows of every length and kind, in every codec, and four thousand keys hashed by Java.
    """
    now = now_ms()
    given = {}
    for codec in Codec:
        topic = make_topic(kafka, partitions=PARTITIONS, **ANY_AGE)
        rng = random.Random(codec)
        rows = [
            Row(row.value, row.key, row.headers, row.timestamp, row.partition)
            for row in arbitrary(rng, ROWS, ["beta"], latest_ms=now)
        ]
        rows += [Row(b"tail %d" % n + b"padding " * 500, b"k") for n in range(200)]
        rows.append(Row(rng.randbytes(900_000), b"great"))
        plan = EncodePlan(
            {topic: PARTITIONS}, topic=topic, codec=codec, block_bytes=rng.choice([4_000, 10**6])
        )
        blocks = written(rows, plan, wire, now)
        assert codec in {block.codec for block in blocks}
        given[topic] = rows
    for topic, rows in given.items():
        found = read(kafka.bootstrap_servers, topic)
        records = [
            (row.partition, Record(row.key, row.value, row.headers, row.timestamp_ms))
            for row in found
        ]
        check(rows, now, records)
    rng = random.Random(0)
    keys = [rng.randbytes(rng.choice([0, 1, 2, 3, 4, 7, 8, 16, 36, 200])) for _ in range(4000)]
    table, hashes = ask_java(kafka.bootstrap_servers, given, tmp_path / "rows.arrow", keys)
    assert murmur2(pa.array(keys, pa.binary())).view("int32").tolist() == hashes
    for topic, rows in given.items():
        check(rows, now, java_records(table, topic))


def java_records(table, topic):
    """Return one topic's rows as Spark read them, by partition and offset."""
    mine = table.filter(pa.compute.equal(table["topic"], topic))
    mine = mine.sort_by([("partition", "ascending"), ("offset", "ascending")])
    times = mine["timestamp"].cast(pa.int64()).to_pylist()
    rows = mine.select(["partition", "key", "value", "headers"]).to_pylist()
    return [
        (
            row["partition"],
            Record(
                row["key"],
                row["value"],
                tuple((h["key"], h["value"]) for h in row["headers"] or ()),
                when // 1000,
            ),
        )
        for row, when in zip(rows, times, strict=True)
    ]


def test_bare_snappy_is_not_what_is_sent(kafka, wire, make_topic):
    """The framing is snappy-java's, in the log as on the wire: the broker took it unchanged."""
    topic = make_topic(kafka)
    plan = EncodePlan({topic: 1}, topic=topic, codec=Codec.SNAPPY)
    (block,) = encode(pa.table({"value": [b"all the same"] * 1000}), plan, now_ms=now_ms())
    assert block.codec is Codec.SNAPPY
    assert block.body.to_pybytes().startswith(b"\x82SNAPPY\0")
    produce(wire, [block])
    assert [row.value for row in read(kafka.bootstrap_servers, topic)] == [b"all the same"] * 1000


def test_linked_lz4_blocks_are_refused(kafka, wire, make_topic):
    """Why lz4 is not left to Arrow: the broker refuses its frames."""
    topic = make_topic(kafka)
    plan = EncodePlan({topic: 1}, topic=topic)
    (block,) = encode(pa.table({"value": [b"all the same " * 20] * 1000}), plan, now_ms=now_ms())
    body = pa.Codec("lz4").compress(block.body)
    linked = type(block)(topic, 0, block.count, 0, 0, Codec.LZ4, body)
    assert stamp(linked, -1, -1, -1, transactional=False)
    with pytest.raises(AssertionError, match="error_code"):
        produce(wire, [linked])


@pytest.mark.parametrize("partitioner", ["murmur2", "murmur2_random"])
def test_same_partition_as_librdkafka(kafka, make_topic, partitioner):
    """Keys go where librdkafka's port of Java's partitioner sends them."""
    topic = make_topic(kafka, partitions=7)
    keys = [b"key-%d" % number * (number % 5 + 1) for number in range(2000)]
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "partitioner": partitioner, "linger.ms": 50}
    )
    for key in keys:
        producer.produce(topic, b"v", key)
    assert producer.flush(30) == 0
    theirs = {row.key: row.partition for row in read(kafka.bootstrap_servers, topic)}
    ours = partitions_of(pa.array(keys, pa.binary()), 7).tolist()
    assert dict(zip(keys, ours, strict=True)) == theirs


def test_the_limit_is_the_broker_s_too(kafka, wire, make_topic):
    """The greatest row that passes the check passes the broker's default limit, uncompressed."""
    topic = make_topic(kafka)
    plan = EncodePlan({topic: 1}, topic=topic)
    value = bytes(plan.record_limit_bytes - 61 - 21 - 1 - 3 - 1)
    blocks = list(encode(pa.table({"value": [value]}), plan, now_ms=now_ms()))
    produce(wire, blocks)
    assert [row.value for row in read(kafka.bootstrap_servers, topic)] == [value]
