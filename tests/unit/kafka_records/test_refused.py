"""What no retry can write is refused by name, before the first block."""

import pyarrow as pa
import pytest
from unit.kafka_records.decoding import HEADERS
from unit.kafka_records.modelling import NOW_MS

from twophase.errors import ConfigurationError, RowRejected
from twophase.kafka.compression import Codec
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode, encode_stream

PLAN = EncodePlan(partitions={"t": 3}, topic="t")
BY_COLUMN = EncodePlan(partitions={"t": 3, "u": 5})


def refused(columns, plan=PLAN):
    """Encode, and return the error; `encode` raises before it returns an iterator."""
    with pytest.raises((RowRejected, ConfigurationError)) as caught:
        encode(pa.table(columns), plan, now_ms=NOW_MS)
    return str(caught.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"value": pa.array([1])}, ["'value'", "int64", "string, binary"]),
        ({"value": ["a"], "key": pa.array([1.0])}, ["'key'", "double", "large_binary"]),
        ({"value": pa.array([None])}, ["'value'", "null"]),
        ({"value": ["a"], "timestamp": ["now"]}, ["'timestamp'", "string", "int64 milliseconds"]),
        (
            {"value": ["a"], "partition": pa.array([1], pa.int16())},
            ["'partition'", "int16", "int32"],
        ),
        ({"value": ["a"], "headers": [["x"]]}, ["'headers'", "list", "struct<key: string"]),
        (
            {"value": ["a"], "headers": pa.array([[{"key": b"k", "value": b"v"}]])},
            ["'headers'", "struct<key: string"],
        ),
        ({"value": ["a"], "headers": [[{"key": "k", "val": b"v"}]]}, ["'headers'"]),
        ({"value": ["a"], "offset": [1]}, ["'offset'", "key, value, headers"]),
        ({"key": ["a"]}, ["'value'", "missing"]),
    ],
)
def test_wrong_columns(columns, words):
    """A wrong column is refused by its name, the type found and the types allowed."""
    text = refused(columns)
    assert text.startswith("TWOPHASE_CONFIGURATION: ")
    assert all(word in text for word in words), text


def test_a_column_twice():
    """Two columns of one name are refused: neither is the one."""
    batch = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["value", "value"])
    with pytest.raises(ConfigurationError, match="'value' is there more than once"):
        encode(batch, PLAN, now_ms=NOW_MS)


def test_no_topic_anywhere():
    """Without a topic for the sink the column is needed."""
    assert "column 'topic' is missing" in refused({"value": ["a"]}, BY_COLUMN)


@pytest.mark.parametrize(
    ("column", "values", "row", "words"),
    [
        ("partition", [0, 2, 3], 2, ["partition is 3", "0 to 2"]),
        ("partition", [0, -1, 3], 1, ["partition is -1"]),
        ("partition", pa.array([None, -(2**63), 0]), 1, ["partition is -92233"]),
        ("timestamp", [0, 1, -1], 2, ["timestamp is -1 ms", "0 (1970-01-01)"]),
        ("timestamp", pa.array([0, 2**62, 1]).view(pa.timestamp("s")), 1, ["timestamp"]),
        ("timestamp", pa.array([None, 0, -1]).view(pa.timestamp("us", "UTC")), 2, ["timestamp"]),
        ("headers", pa.array([[], [{"key": None, "value": b""}], None], HEADERS), 1, ["header 0"]),
        (
            "headers",
            pa.array([None, [], [{"key": "a", "value": b""}, None]], HEADERS),
            2,
            ["header 1 has no key"],
        ),
    ],
)
def test_wrong_rows(column, values, row, words):
    """A wrong row is refused by its number, its column, what was found and what is allowed."""
    text = refused({"value": ["a", "b", "c"], column: values})
    assert text.startswith("TWOPHASE_ROW_REJECTED: ")
    assert text.endswith(f"[row={row} column={column}]")
    assert all(word in text for word in words), text


def test_topics():
    """A missing and an unknown topic are refused by row."""
    values = ["a", "b", "c"]
    text = refused({"value": values, "topic": ["t", None, "u"]}, BY_COLUMN)
    assert "topic is null" in text
    assert "[row=1 column=topic]" in text
    text = refused({"value": values, "topic": ["t", "u", "nowhere"]}, BY_COLUMN)
    assert "'nowhere' has no known number of partitions" in text
    assert "[row=2 column=topic]" in text
    of_u = {"value": values, "topic": ["u", "t", "t"], "partition": [4, 2, 3]}
    assert "partition is 3; the topic has partitions 0 to 2 [row=2" in refused(of_u, BY_COLUMN)


def test_topics_that_no_row_uses():
    """A dictionary may name topics that are not known, as long as no row uses them."""
    topic = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array(["t", "nowhere"]))
    blocks = list(encode(pa.table({"value": ["a", "b"], "topic": topic}), BY_COLUMN, now_ms=1))
    assert {block.topic for block in blocks} == {"t"}


def size_of_java(key, value, headers=0):
    """AbstractRecords.estimateSizeInBytesUpperBound, for lengths below 2^20."""

    def field(content):
        if content is None:
            return 1
        return len(content) + (1 if len(content) < 64 else 2 if len(content) < 8192 else 3)

    return 61 + 21 + field(key) + field(value) + 1 + headers


@pytest.mark.parametrize("key", [None, b"k", b"k" * 100])
def test_the_limit_is_java_s_to_the_byte(key):
    """A row is refused at the very setting at which Java's client refuses it."""
    value = bytes(10_000)
    columns = {"value": [b"", value, b""], "key": pa.array([None, key, None], pa.binary())}
    size = size_of_java(key, value)
    allowed = EncodePlan(partitions={"t": 3}, topic="t", record_limit_bytes=size)
    assert sum(block.count for block in encode(pa.table(columns), allowed, now_ms=1)) == 3
    text = refused(columns, EncodePlan(partitions={"t": 3}, topic="t", record_limit_bytes=size - 1))
    assert f"row=1 column=value size={size} limit={size - 1}]" in text


def test_headers_count():
    """Headers count towards the limit as they do in Java."""
    headers = pa.array([[{"key": "h", "value": bytes(5000)}]], HEADERS)
    columns = {"value": [b"v"], "headers": headers}
    size = size_of_java(None, b"v", headers=1 + 1 + 2 + 5000)
    allowed = EncodePlan(partitions={"t": 3}, topic="t", record_limit_bytes=size)
    assert len(list(encode(pa.table(columns), allowed, now_ms=1))) == 1
    text = refused(columns, EncodePlan(partitions={"t": 3}, topic="t", record_limit_bytes=size - 1))
    assert f"size={size}" in text


def test_a_row_above_the_limit_says_what_to_do():
    """Key, size, limit and both settings are named, and the key is shown short and safe."""
    key = b"order-\n\x00" + b"9" * 100
    columns = {"value": [bytes(2_000_000)], "key": [key]}
    text = refused(columns)
    assert "b'order-" in text
    assert "\n" not in text
    assert "(108 bytes)" in text
    for part in ("takes 2000", "1048576", "kafka.max.request.size", "max.message.bytes", "row=0"):
        assert part in text, text


def test_nothing_is_encoded_before_the_last_row_is_checked():
    """A wrong row at the very end of many chunks is refused before the first block."""
    good = pa.table({"value": [bytes(1000)] * 1000, "partition": [0] * 1000})
    bad = pa.table({"value": [b"x"], "partition": [3]})
    table = pa.concat_tables([good] * 60 + [bad])
    with pytest.raises(RowRejected, match="row=60000 column=partition"):
        encode(table, EncodePlan(partitions={"t": 3}, topic="t", window_bytes=2**20), now_ms=1)


def test_a_stream_is_checked_batch_by_batch():
    """A stream's wrong row is numbered across batches, and its own window is never encoded."""
    good = pa.record_batch({"value": [bytes(100)] * 10, "partition": [0] * 10})
    bad = pa.record_batch({"value": [b"x"], "partition": [3]})
    stream = encode_stream([good, good, bad], PLAN, now_ms=1)
    with pytest.raises(RowRejected, match="row=20 column=partition"):
        next(stream)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partitions": {"u": 1}, "topic": "t"}, "topic 't'"),
        ({"partitions": {"t": 0}}, "'t' has 0 partitions"),
        ({"partitions": {}, "block_bytes": 0}, "block_bytes is 0"),
        ({"partitions": {}, "record_limit_bytes": 2**31}, "record_limit_bytes is 2147483648"),
        ({"partitions": {}, "codec": Codec.GZIP, "level": 10}, "compression.gzip.level is 10"),
        ({"partitions": {}, "codec": Codec.ZSTD, "level": 23}, "compression.zstd.level is 23"),
        ({"partitions": {}, "codec": Codec.SNAPPY, "level": 1}, "snappy has no levels"),
    ],
)
def test_wrong_plans(options, words):
    """A plan that cannot work is refused when it is made."""
    with pytest.raises(ConfigurationError, match=words):
        EncodePlan(**options)
