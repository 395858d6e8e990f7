"""Rows as plain Python, the Arrow batches they can come in, and what must become of them."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from kafka.partitioner.default import murmur2
from unit.kafka_records.decoding import Record, by_partition, raw_size

NOW_MS = 1_700_000_000_123
BYTE_KINDS = [pa.binary(), pa.large_binary(), pa.binary_view()]
TEXT_KINDS = [pa.string(), pa.large_string(), pa.string_view()]
PARTITIONS = {"alpha": 1, "beta": 3, "gamma": 16}


@dataclass(frozen=True)
class Row:
    """One row as the user has it; what a column does not have is None."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] | None = None
    timestamp: int | None = None
    partition: int | None = None
    topic: str | None = None

    def record(self):
        """Return what a reader must see."""
        when = NOW_MS if self.timestamp is None else self.timestamp
        return Record(self.key, self.value, self.headers or (), when)


_BINARY, _STRING, _INT32, _INSTANT = pa.binary(), pa.string(), pa.int32(), pa.timestamp("ms", "UTC")


@dataclass(frozen=True)
class Kinds:
    """The Arrow types of a batch; None for a column that is not there."""

    value: Any = _BINARY
    key: Any = _BINARY
    header_list: Any = pa.list_
    header_key: Any = _STRING
    header_value: Any = _BINARY
    timestamp: Any = _INSTANT
    partition: Any = _INT32
    topic: Any = _STRING


def batch_of(rows, kinds=None):
    """Build one record batch with the columns that have a kind."""
    kinds = kinds or Kinds()
    columns = {}
    for name in ("value", "key", "topic"):
        kind = getattr(kinds, name)
        if kind is not None:
            columns[name] = _bytes([getattr(row, name) for row in rows], kind)
    if kinds.header_list is not None:
        header = pa.struct([("key", kinds.header_key), ("value", kinds.header_value)])
        lists = [
            None if row.headers is None else [{"key": k, "value": v} for k, v in row.headers]
            for row in rows
        ]
        columns["headers"] = pa.array(lists, kinds.header_list(header))
    if kinds.timestamp is not None:
        columns["timestamp"] = _timestamps([row.timestamp for row in rows], kinds.timestamp)
    if kinds.partition is not None:
        columns["partition"] = pa.array([row.partition for row in rows], kinds.partition)
    return pa.record_batch(columns)


def arbitrary(rng, count, topics, latest_ms=2**62):
    """Make rows with everything that a row can have, at lengths around every boundary."""
    lengths = [0, 1, 4, 8, 11, 12, 13, 63, 64, 127, 128, 500, 8191, 8192]
    weights = [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 1, 1]

    def content(number, carries):
        size = rng.choices(lengths, weights)[0]
        mark = b"#%d" % number if carries else b""
        return mark + rng.randbytes(size) if carries or rng.random() < 0.8 else None

    for number in range(count):
        in_key = rng.random() < 0.5
        topic = rng.choice(topics)
        yield Row(
            value=content(number, not in_key),
            key=content(number, in_key) if in_key or rng.random() < 0.7 else None,
            headers=None
            if rng.random() < 0.3
            else tuple(
                (f"h{at}", content(0, carries=False)) for at in range(rng.choice([0, 1, 2, 70]))
            ),
            timestamp=rng.choice([None, 0, rng.randrange(latest_ms), NOW_MS + number]),
            partition=rng.choice([None, None, rng.randrange(PARTITIONS[topic])]),
            topic=topic,
        )


def _timestamps(values, kind):
    if not pa.types.is_timestamp(kind):
        return pa.array(values, kind)
    per_ms = {"ms": 1, "us": 1000, "ns": 1_000_000}[kind.unit]
    # 999 more of a finer unit: instants within a millisecond are cut down, never rounded up.
    fine = [None if value is None else value * per_ms + (per_ms - 1) for value in values]
    return pa.array(fine, pa.int64()).view(kind)


def _bytes(values, kind):
    if pa.types.is_dictionary(kind):
        return _bytes(values, kind.value_type).dictionary_encode()
    if kind in TEXT_KINDS:
        values = [value.decode() if isinstance(value, bytes) else value for value in values]
    else:
        values = [value.encode() if isinstance(value, str) else value for value in values]
    return pa.array(values, kind)


def chunked(batch, cuts):
    """Return the batch as a table whose chunks end at the cuts, each chunk a slice."""
    edges = [0, *sorted(cuts), len(batch)]
    parts = [batch.slice(a, b - a) for a, b in pairwise(edges)]
    return pa.Table.from_batches(parts, batch.schema)


def check(rows, plan, blocks):
    """Every row is in exactly one block, of the right partition, in order, within the limits."""
    index = {(row.topic, row.record()): number for number, row in enumerate(rows)}
    assert len(index) == len(rows), "the rows of a test must differ"
    seen = []
    for (topic, partition), records in by_partition(blocks).items():
        at = [index[(None if plan.topic else topic, record)] for record in records]
        assert at == sorted(at)
        assert all(_fits(rows[number], topic, partition, plan) for number in at)
        seen += at
    assert sorted(seen) == list(range(len(rows)))
    for block in blocks:
        assert block.count == 1 or raw_size(block) <= plan.block_bytes


def _fits(row, topic, partition, plan):
    count = plan.partitions[topic]
    if row.partition is not None:
        return partition == row.partition
    if row.key is not None:
        return partition == (murmur2(row.key) & 0x7FFFFFFF) % count
    return 0 <= partition < count
