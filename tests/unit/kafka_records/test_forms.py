"""Batches at the edges of what Arrow allows."""

import numpy as np
import pyarrow as pa
import pytest
from unit.kafka_records.decoding import HEADERS, Record, by_partition, decode
from unit.kafka_records.modelling import BYTE_KINDS, NOW_MS, TEXT_KINDS

from twophase.kafka.compression import Codec
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode, encode_stream

PLAN = EncodePlan(partitions={"t": 1}, topic="t")


def records(columns, plan=PLAN):
    """Return the records of a table with one partition."""
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    found = by_partition(encode(table, plan, now_ms=NOW_MS))
    assert set(found) <= {("t", 0)}
    return found.get(("t", 0), [])


def values(columns, plan=PLAN):
    """Return the values of a table with one partition."""
    return [record.value for record in records(columns, plan)]


@pytest.mark.parametrize("kind", [*BYTE_KINDS, *TEXT_KINDS])
def test_nothing_in_nothing_out(kind):
    """Empty batches, empty tables and empty chunks give no block."""
    schema = pa.schema([("value", kind), ("key", kind), ("headers", HEADERS)])
    assert list(encode(schema.empty_table(), PLAN, now_ms=1)) == []
    assert list(encode(pa.RecordBatch.from_pylist([], schema), PLAN, now_ms=1)) == []
    assert list(encode(pa.table({"value": pa.chunked_array([], kind)}), PLAN, now_ms=1)) == []
    assert list(encode_stream([], PLAN, now_ms=1)) == []
    row = pa.RecordBatch.from_pylist([{"value": "x", "key": None, "headers": None}], schema)
    empty = row.slice(1)
    (block,) = encode_stream([empty, row, empty], PLAN, now_ms=NOW_MS)
    assert decode(block) == [Record(None, b"x", (), NOW_MS)]


@pytest.mark.parametrize("kind", [*BYTE_KINDS, *TEXT_KINDS])
def test_null_and_empty_are_two_things(kind):
    """Null keys, tombstones, null header values and their empty kin all come back as they were."""
    columns = {
        "key": pa.array([None, "", "k", None], kind),
        "value": pa.array([None, "", None, "v"], kind),
        "headers": pa.array(
            [None, [], [{"key": "", "value": None}], [{"key": "h", "value": b""}] * 2], HEADERS
        ),
    }
    assert records(columns) == [
        Record(None, None, (), NOW_MS),
        Record(b"", b"", (), NOW_MS),
        Record(b"k", None, (("", None),), NOW_MS),
        Record(None, b"v", (("h", b""), ("h", b"")), NOW_MS),
    ]


@pytest.mark.parametrize("kind", [*BYTE_KINDS, *TEXT_KINDS])
def test_all_null(kind):
    """Columns of nothing but nulls have no bytes at all."""
    columns = {"key": pa.nulls(70, kind), "value": pa.nulls(70, kind)}
    assert records(columns) == [Record(None, None, (), NOW_MS)] * 70


def test_bytes_hidden_under_nulls():
    """Arrow lets a null have bytes; they are not sent."""
    hidden = pa.Array.from_buffers(
        pa.binary(),
        3,
        [
            pa.py_buffer(bytes([0b101])),
            pa.py_buffer(np.array([0, 1, 30, 31], np.int32)),
            pa.py_buffer(b"a" + b"secret" * 5),
        ],
    )
    assert hidden.to_pylist() == [b"a", None, b"t"]
    assert [r.key for r in records({"key": hidden, "value": hidden})] == [b"a", None, b"t"]
    assert values({"value": hidden}) == [b"a", None, b"t"]


def test_headers_hidden_under_nulls():
    """A null list may have elements; they are no headers."""
    pairs = pa.array([{"key": name, "value": b"v"} for name in "abcd"], HEADERS.value_type)
    offsets, mask = pa.array([0, 1, 3, 4], pa.int32()), pa.array([False, True, False])
    headers = pa.ListArray.from_arrays(offsets, pairs, mask=mask)
    assert len(headers.values) == 4
    found = [record.headers for record in records({"value": ["x"] * 3, "headers": headers})]
    assert found == [(("a", b"v"),), (), (("d", b"v"),)]


@pytest.mark.parametrize("length", range(30))
def test_lengths_around_what_a_view_holds(length):
    """Bytes near the end of their buffer are read whole, whether a view holds them or not."""
    content = bytes(range(65, 65 + length))
    rows = [b"", content, None, content, b"q"]
    for kind in BYTE_KINDS:
        columns = {"key": pa.array(rows, kind), "value": pa.array(rows[::-1], kind)}
        found = records(columns)
        assert [record.key for record in found] == rows
        assert [record.value for record in found] == rows[::-1]


def test_values_of_several_megabytes():
    """Rows far above a block's size come one to a block, if the limit allows them."""
    plan = EncodePlan(partitions={"t": 1}, topic="t", record_limit_bytes=2**24, codec=Codec.LZ4)
    rows = [b"a" * 5_000_000, b"small", b"b" * 9_000_000]
    blocks = list(encode(pa.table({"value": rows}), plan, now_ms=NOW_MS))
    assert [block.count for block in blocks] == [1, 1, 1]
    assert [record.value for block in blocks for record in decode(block)] == rows


def test_offsets_beyond_two_gigabytes():
    """A slice from the far end of a huge column is encoded, and what nulls hide is no hindrance."""
    far = 2**31 + 1000
    data = np.zeros(far + 16, np.uint8)  # never touched, so never really allocated
    data[far:] = np.frombuffer(b"0123456789abcdef", np.uint8)
    offsets = pa.py_buffer(np.array([0, far, far + 3, far + 16], np.int64))
    valid = pa.py_buffer(bytes([0b110]))
    kind = pa.large_binary()
    column = pa.Array.from_buffers(kind, 3, [valid, offsets, pa.py_buffer(data)])
    assert values({"value": column.slice(1)}) == [b"012", b"3456789abcdef"]
    assert values({"value": column}) == [None, b"012", b"3456789abcdef"]


def test_more_bytes_than_a_window():
    """A batch of many windows is encoded in pieces, and every row is there once."""
    plan = EncodePlan(partitions={"t": 1}, topic="t", window_bytes=10_000)
    rows = [b"%d" % number * (number % 40) for number in range(5000)]
    for kind in (pa.binary(), pa.large_binary()):
        assert values({"value": pa.array(rows, kind)}, plan) == rows


def test_chunks_with_dictionaries_of_their_own():
    """Every chunk may have another dictionary."""
    parts = [["a", "b", "a"], ["c", None, "a"], ["b"]]
    chunks = [pa.array(part).dictionary_encode() for part in parts]
    table = pa.table({"value": pa.chunked_array(chunks)})
    assert values(table) == [b"a", b"b", b"a", b"c", None, b"a", b"b"]


def test_timestamps():
    """Any order, any unit, any zone; a fraction of a millisecond is cut off; null means now."""
    plan = EncodePlan(partitions={"t": 1}, topic="t")
    moments = [5_000, 0, None, 1_000, 2**50, 3_000]

    def read(column):
        columns = {"value": ["x"] * len(column), "timestamp": column}
        return [record.timestamp for record in records(columns, plan)]

    wanted = [NOW_MS if moment is None else moment for moment in moments]
    in_ms = pa.array(moments, pa.int64())
    assert read(in_ms) == wanted
    assert read(in_ms.view(pa.timestamp("ms", "Europe/Berlin"))) == wanted
    in_us = pa.array([None if m is None else m * 1000 + 999 for m in moments], pa.int64())
    assert read(in_us.view(pa.timestamp("us"))) == wanted
    short = pa.array([None, 7, 0], pa.int64())
    assert read(short.view(pa.timestamp("s"))) == [NOW_MS, 7000, 0]
    in_ns = pa.array([None, 7_999_999, 0], pa.int64())
    assert read(in_ns.view(pa.timestamp("ns"))) == [NOW_MS, 7, 0]
    assert read(pa.array([2**63 - 1, 0, None, 2**62])) == [2**63 - 1, 0, NOW_MS, 2**62]


def test_a_topic_of_the_sink_beats_the_column():
    """As in Spark's own sink: with a topic set, the column is not looked at."""
    columns = {"value": ["a"], "topic": pa.array([None], pa.string())}
    assert values(columns) == [b"a"]


def test_the_same_rows_give_the_same_bytes():
    """Encoding again gives equal blocks; another time or turn gives others."""
    rng = np.random.default_rng(5)
    columns = {
        "value": [rng.bytes(int(rng.integers(0, 50))) for _ in range(2000)],
        "key": [None if n % 3 else b"%d" % n for n in range(2000)],
    }
    for codec in Codec:
        plan = EncodePlan(partitions={"t": 5}, topic="t", codec=codec, block_bytes=5000)
        table = pa.table(columns)
        first = list(encode(table, plan, now_ms=1, spread_from=4))
        assert list(encode(table, plan, now_ms=1, spread_from=4)) == first
        assert list(encode(table.combine_chunks(), plan, now_ms=1, spread_from=4)) == first
        assert list(encode(table, plan, now_ms=2, spread_from=4)) != first
        assert list(encode(table, plan, now_ms=1, spread_from=0)) != first
