"""Rows that no retry can write, refused by name before anything is encoded."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twophase.errors import RowRejected
from twophase.kafka.blocks import HEADER_BYTES
from twophase.kafka.columns import MISSING, Bools, Headers, Longs, Rows
from twophase.kafka.plan import EncodePlan
from twophase.kafka.topics import topics_of
from twophase.kafka.varint import size_of, sizes_of

# Java's bound for a record's own fields: length 5, attributes 1, timestamp 10, offset 5.
_FIELDS_BYTES: Final = 21
_PREVIEW_BYTES: Final = 24


def check_rows(rows: Rows, batch: pa.RecordBatch, first: int, plan: EncodePlan) -> None:
    """Raise RowRejected for the first row that is wrong in the first wrong column."""
    if rows.partitions is not None:
        _check_partitions(rows.partitions, first, topics_of(batch, plan, first).counts())
    else:
        topics_of(batch, plan, first)
    if rows.timestamps is not None:
        _check_timestamps(rows.timestamps, first)
    if rows.headers is not None:
        _check_headers(rows.headers, first)
    _check_sizes(rows, first, plan.record_limit_bytes)


def _check_partitions(partitions: Longs, first: int, counts: Longs | int) -> None:
    row = _first(((partitions < 0) & (partitions != MISSING)) | (partitions >= counts))
    if row is not None:
        count = counts if isinstance(counts, int) else int(counts[row])
        raise RowRejected(
            f"partition is {partitions[row]}; the topic has partitions 0 to {count - 1}",
            row=first + row,
            column="partition",
        )


def _check_timestamps(timestamps: Longs, first: int) -> None:
    row = _first((timestamps < 0) & (timestamps != MISSING))
    if row is not None:
        raise RowRejected(
            f"timestamp is {timestamps[row]} ms; allowed are 0 (1970-01-01) to {2**63 - 1}",
            row=first + row,
            column="timestamp",
        )


def _check_headers(headers: Headers, first: int) -> None:
    if not headers.keys.null_count:
        return
    at = pc.index(headers.keys.is_null(), pa.scalar(value=True)).as_py()
    ends = np.cumsum(headers.counts)
    row = int(np.searchsorted(ends, at, side="right"))
    raise RowRejected(
        f"header {at - int(ends[row] - headers.counts[row])} has no key;"
        " a header's value may be null, its key may not",
        row=first + row,
        column="headers",
    )


def _check_sizes(rows: Rows, first: int, limit: int) -> None:
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
    row = _first(sizes > limit)
    if row is not None:
        raise RowRejected(
            f"the record with key {_preview(rows.key, row)} takes {sizes[row]} bytes; the limit is"
            f" {limit}: raise kafka.max.request.size, and the topic's max.message.bytes with it",
            row=first + row,
            column="value",
            size=int(sizes[row]),
            limit=limit,
        )


def _first(wrong: Bools) -> int | None:
    return int(np.argmax(wrong)) if wrong.any() else None


def _preview(key: pa.Array | None, row: int) -> str:
    found = None if key is None else key[row].as_py()
    if found is None:
        return "null"
    raw = found.encode() if isinstance(found, str) else found
    shown = repr(raw[:_PREVIEW_BYTES])
    return shown if len(raw) <= _PREVIEW_BYTES else f"{shown}… ({len(raw)} bytes)"
