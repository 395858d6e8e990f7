"""Rows that no retry can write, found by name before anything is encoded."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twophase.kafka.blocks import HEADER_BYTES
from twophase.kafka.columns import MISSING, Headers, Longs, Rows, as_bytes
from twophase.kafka.faults import Fault, Reason
from twophase.kafka.plan import EncodePlan
from twophase.kafka.topics import topics_of
from twophase.kafka.varint import size_of, sizes_of

# Java's bound for a record's own fields: length 5, attributes 1, timestamp 10, offset 5.
_FIELDS_BYTES: Final = 21
_PREVIEW_BYTES: Final = 24


def check_rows(rows: Rows, batch: pa.RecordBatch, first: int, plan: EncodePlan) -> None:
    """Raise RowRejected for the first row that is wrong in the first wrong column."""
    for fault in row_faults(rows, batch, first, plan):
        raise fault.rejected(first)


def row_faults(rows: Rows, batch: pa.RecordBatch, first: int, plan: EncodePlan) -> Iterator[Fault]:
    """Yield what is wrong with rows whose topics exist; a topic that does not is raised."""
    topics = topics_of(batch, plan, first)
    if rows.partitions is not None:
        yield from _partition_faults(rows.partitions, topics.counts())
    if rows.timestamps is not None:
        yield from _timestamp_faults(rows.timestamps)
    if rows.headers is not None:
        yield from _header_faults(rows.headers)
    yield from _size_faults(rows, plan.record_limit_bytes)


def _partition_faults(partitions: Longs, counts: Longs | int) -> Iterator[Fault]:
    wrong = ((partitions < 0) & (partitions != MISSING)) | (partitions >= counts)
    if not wrong.any():
        return

    def tell(row: int) -> tuple[str, dict[str, int]]:
        count = counts if isinstance(counts, int) else int(counts[row])
        return f"partition is {partitions[row]}; the topic has partitions 0 to {count - 1}", {}

    yield Fault(Reason.PARTITION, "partition", wrong, tell)


def _timestamp_faults(timestamps: Longs) -> Iterator[Fault]:
    wrong = (timestamps < 0) & (timestamps != MISSING)
    if not wrong.any():
        return

    def tell(row: int) -> tuple[str, dict[str, int]]:
        found = timestamps[row]
        return f"timestamp is {found} ms; allowed are 0 (1970-01-01) to {2**63 - 1}", {}

    yield Fault(Reason.TIMESTAMP, "timestamp", wrong, tell)


def _header_faults(headers: Headers) -> Iterator[Fault]:
    if not headers.keys.null_count:
        return
    ends = np.cumsum(headers.counts)
    nulls = np.flatnonzero(pc.is_null(headers.keys).to_numpy(zero_copy_only=False))
    rows = np.searchsorted(ends, nulls, side="right")
    wrong = np.zeros(len(ends), np.bool_)
    wrong[rows] = True

    def tell(row: int) -> tuple[str, dict[str, int]]:
        at = int(nulls[np.searchsorted(rows, row)]) - int(ends[row] - headers.counts[row])
        return f"header {at} has no key; a header's value may be null, its key may not", {}

    yield Fault(Reason.HEADER, "headers", wrong, tell)


def _size_faults(rows: Rows, limit: int) -> Iterator[Fault]:
    """Measure a row as Java's client does, so that the same setting refuses the same rows."""
    most = HEADER_BYTES + _FIELDS_BYTES
    lengths = (
        [rows.value_lengths] if rows.key_lengths is None else [rows.value_lengths, rows.key_lengths]
    )
    for column in lengths:
        longest = int(column.max())
        most += size_of(longest) + max(longest, 0)
    if rows.headers is not None:
        most += size_of(int(rows.headers.counts.max())) + int(rows.headers.sizes.max())
    if most + 1 <= limit:
        return
    sizes = np.full(len(rows), HEADER_BYTES + _FIELDS_BYTES, np.int64)
    for column in lengths:
        sizes += sizes_of(column) + np.maximum(column, 0)
    sizes += 1 if rows.key is None else 0
    sizes += 1 if rows.headers is None else sizes_of(rows.headers.counts) + rows.headers.sizes
    wrong = sizes > limit
    if wrong.any():
        yield Fault(Reason.SIZE, "value", wrong, partial(_tell_size, rows, sizes, limit))


def _tell_size(rows: Rows, sizes: Longs, limit: int, row: int) -> tuple[str, dict[str, int]]:
    text = (
        f"the record with key {preview(rows.key, row)} takes {sizes[row]} bytes; the limit is"
        f" {limit}: raise kafka.max.request.size, and the topic's max.message.bytes with it"
    )
    return text, {"size": int(sizes[row]), "limit": limit}


def preview(key: pa.Array | None, row: int) -> str:
    """Return a row's key as an error may show it: short, and on one line."""
    raw = None if key is None else as_bytes(key.slice(row, 1))[0].as_py()
    if raw is None:
        return "null"
    shown = repr(raw[:_PREVIEW_BYTES])
    return shown if len(raw) <= _PREVIEW_BYTES else f"{shown}… ({len(raw)} bytes)"
