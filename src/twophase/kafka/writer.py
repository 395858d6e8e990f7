"""The records of a window, written a few blocks at a time."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from twophase.kafka.blocks import Block
from twophase.kafka.columns import Headers, Longs, Rows, lengths_of
from twophase.kafka.compression import compress
from twophase.kafka.layout import Cut
from twophase.kafka.pieces import Choice, Joined, Ragged, View, join, view_of_field
from twophase.kafka.plan import EncodePlan
from twophase.kafka.varint import ZERO, Field, counting, merge, total_size, varints
from twophase.kafka.windows import TILE_ROWS

_NULL: Final = varints(np.array([-1]))
_ATTRIBUTES: Final = ZERO
_NOTHING: Final = pa.py_buffer(b"")
_VALUE, _KEY, _HEADERS = range(3)  # the buffers that a window's records are made of


class Writer:
    """Writes any rows of a window, in any order, as the blocks that they form."""

    def __init__(self, rows: Rows, times: Longs | None, now_ms: int) -> None:
        self._now_ms = now_ms
        self._times = times
        self._value = Ragged.of(rows.value, rows.value_lengths)
        self._key = self._headers = self._header_counts = None
        self._buffers = [self._value.data, _NOTHING, _NOTHING]
        if rows.key is not None and rows.key_lengths is not None:
            self._key = Ragged.of(rows.key, rows.key_lengths)
            self._buffers[_KEY] = self._key.data
        if rows.headers is not None:
            self._header_counts = rows.headers.counts
            self._headers = _write_headers(rows.headers)
            self._buffers[_HEADERS] = self._headers.data

    def write(self, choice: Choice, cuts: list[Cut], plan: EncodePlan) -> Iterator[Block]:
        """Write the chosen rows, which are those of the cuts, one cut after the other."""
        starts = np.array([cut.start - cuts[0].start for cut in cuts])
        total = cuts[-1].stop - cuts[0].start
        counts = np.diff(starts, append=total)
        deltas, base, latest = self._timestamps(choice, starts, counts)
        records = self._records(choice, counting(counts.tolist()), deltas, total)
        begins = records.offsets[np.append(starts, total)].tolist()
        for at, cut in enumerate(cuts):
            raw = records.data.slice(begins[at], begins[at + 1] - begins[at])
            codec, body = compress(raw, plan.codec, plan.level)
            yield Block(
                topic=cut.topic,
                partition=cut.partition,
                count=cut.stop - cut.start,
                base_timestamp_ms=int(base[at]),
                max_timestamp_ms=int(latest[at]),
                codec=codec,
                body=body,
            )

    def _timestamps(
        self, choice: Choice, starts: Longs, counts: Longs
    ) -> tuple[Longs | None, Longs, Longs]:
        """Return the deltas of all rows, and the earliest and latest instant of each block."""
        if self._times is None:
            now = np.full(len(starts), self._now_ms)
            return None, now, now
        times = self._times[choice]
        # The earliest instant is the base, so that no reader meets a negative delta.
        base = np.minimum.reduceat(times, starts)
        return times - np.repeat(base, counts), base, np.maximum.reduceat(times, starts)

    def _records(self, choice: Choice, offset: Field, deltas: Longs | None, rows: int) -> Joined:
        """Write the chosen rows: a record is its fields, key, value and headers, in this order."""
        value = self._value.take(choice)
        key = None if self._key is None else self._key.take(choice)
        headers = None if self._headers is None else self._headers.take(choice)
        timestamp = (ZERO,) if deltas is None else varints(deltas)
        key_length = _NULL if key is None else varints(key.lengths)
        value_length = varints(value.lengths)
        counts = self._header_counts
        header_count = (ZERO,) if counts is None else varints(counts[choice])
        front = [_ATTRIBUTES, *timestamp, offset, *key_length]
        size: Any = total_size([*front, *value_length, *header_count])
        size = size + value.sizes()
        for part in (key, headers):
            if part is not None:
                size += part.sizes()
        front = [*varints(size), *front]
        if key is None:
            views = _views([*front, *value_length])
        else:
            views = [*_views(front), key.view(_KEY), *_views(value_length)]
        views += [value.view(_VALUE), *_views(header_count)]
        if headers is not None:
            views.append(headers.view(_HEADERS))
        return join(views, rows, self._buffers)


def _write_headers(headers: Headers) -> Ragged:
    """Write every row's headers, without their count."""
    keys = Ragged.of(headers.keys, lengths_of(headers.keys))
    values = Ragged.of(headers.values, lengths_of(headers.values))
    sizes, parts = [np.zeros(1, np.int64)], []
    # A tile at a time: the views of a header take more room than most headers do.
    for first in range(0, len(headers.keys), TILE_ROWS):
        here = slice(first, first + TILE_ROWS)
        key, value = keys.take(here), values.take(here)
        views = [*_views(varints(key.lengths)), key.view(0)]
        views += [*_views(varints(value.lengths)), value.view(1)]
        joined = join(views, len(key.lengths), [keys.data, values.data])
        sizes.append(np.diff(joined.offsets))
        parts.append(joined.data)
    # The headers of one row lie side by side: a row's are one run of bytes.
    offsets, stops = np.cumsum(np.concatenate(sizes)), np.cumsum(headers.counts)
    begins = offsets[stops - headers.counts]
    whole = parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))
    return Ragged(begins, offsets[stops] - begins, whole, has_nulls=False)


def _views(fields: Iterable[Field]) -> list[View]:
    return [view_of_field(field) for field in merge(fields)]
