"""Which rows of a window form which block: partition, order and cut."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from twophase.kafka.blocks import HEADER_BYTES
from twophase.kafka.columns import Longs, Rows, with_offsets
from twophase.kafka.partitioner import partitions_of
from twophase.kafka.plan import EncodePlan
from twophase.kafka.topics import Topics
from twophase.kafka.varint import Ints, size_of
from twophase.kafka.windows import TILE_ROWS

Partitions: TypeAlias = npt.NDArray[np.int32]

_KEYLESS: Final = -1
_RADIX_TARGETS: Final = 2**16


@dataclass(frozen=True, slots=True)
class Cut:
    """One block to be: rows `start` to `stop` of the ordered window, `most_bytes` at most."""

    topic: str
    partition: int
    start: int
    stop: int
    most_bytes: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The blocks to be, and the rows in their order; no order where they already lie so."""

    cuts: list[Cut]
    order: Longs | None


class Spread:
    """Where rows without a key go next: one partition per block's worth of rows, in turn."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._turns: dict[str, int] = {}

    def take(self, topic: str, runs: int) -> Longs:
        """Return the next `runs` turns of a topic, to be taken modulo its number of partitions."""
        first = self._turns.get(topic, self._start)
        self._turns[topic] = first + runs
        return np.arange(first, first + runs, dtype=np.int64)


def lay_out(
    rows: Rows, topics: Topics, times: Longs | None, plan: EncodePlan, spread: Spread
) -> Layout:
    """Partition, order and cut the rows; the same arguments give the same layout."""
    limits = [_limit_of(plan, name) for name in topics.names]
    sizes, targets = _record_bytes(rows, times), np.empty(len(rows), np.int32)
    for first in range(0, len(rows), TILE_ROWS):
        here = slice(first, first + TILE_ROWS)
        targets[here] = _partitions(rows, here, topics.counts(here))
    _place_keyless(targets, topics, sizes, limits, spread)
    bases = np.concatenate(([0], np.cumsum(topics.sizes)))
    if len(topics.names) > 1:
        targets += bases[topics.codes].astype(np.int32)
    order, counts = _order(targets, int(bases[-1]))
    ends = np.cumsum(sizes if order is None else sizes[order], dtype=np.int64)
    cuts, start = [], 0
    for target in np.flatnonzero(counts):
        topic = int(np.searchsorted(bases, target, side="right")) - 1
        name, partition = topics.names[topic], int(target - bases[topic])
        stop = start + int(counts[target])
        for begin, end in _spans(ends, start, stop, limits[topic]):
            before = int(ends[begin - 1]) if begin else 0
            cuts.append(Cut(name, partition, begin, end, int(ends[end - 1]) - before))
        start = stop
    return Layout(cuts, order)


def _limit_of(plan: EncodePlan, topic: str) -> int:
    """Return how many bytes the records of a block may take, unless it holds one only."""
    most = plan.rule(topic).block_bytes
    return (plan.block_bytes if most is None else min(plan.block_bytes, most)) - HEADER_BYTES


def _record_bytes(rows: Rows, times: Longs | None) -> Ints:
    """Return the bytes that each record takes at most, in whatever block it lies.

    Every varint counts as much as the longest in its column, which costs a block few bytes.
    """
    sizes = np.maximum(rows.value_lengths, 0)
    attributes = key_length = header_count = timestamp = 1
    if rows.key_lengths is not None:
        sizes += np.maximum(rows.key_lengths, 0)
        key_length = size_of(int(rows.key_lengths.max()))
    if rows.headers is not None:
        sizes = sizes + rows.headers.sizes
        header_count = size_of(int(rows.headers.counts.max()))
    if times is not None:
        timestamp = size_of(int(times.max()) - int(times.min()))
    value_length, offset = size_of(int(rows.value_lengths.max())), size_of(len(rows))
    sizes += attributes + timestamp + offset + key_length + value_length + header_count
    sizes += size_of(int(sizes.max()))
    return sizes


def _partitions(rows: Rows, here: slice, counts: Longs | int) -> Any:
    """Return the partition of every row: its own, else its key's, else _KEYLESS."""
    if isinstance(counts, int) and counts == 1:
        return 0
    own = None if rows.partitions is None else rows.partitions[here]
    if own is not None and own.min() >= 0:
        return own
    by_key: Any = _KEYLESS
    if rows.key is not None and rows.key_lengths is not None:
        key = with_offsets(rows.key.slice(here.start, TILE_ROWS))
        by_key = partitions_of(key, counts).astype(np.int32)
        if key.null_count:
            by_key[rows.key_lengths[here] < 0] = _KEYLESS
    return by_key if own is None else np.where(own >= 0, own, by_key)


def _place_keyless(
    partitions: Partitions, topics: Topics, sizes: Ints, limits: list[int], spread: Spread
) -> None:
    """Give runs of rows without a key, each of about one block, to the partitions in turn."""
    keyless = partitions == _KEYLESS
    if not keyless.any():
        return
    for code, name in enumerate(topics.names):
        mine = keyless if len(topics.names) == 1 else keyless & (topics.codes == code)
        where = np.flatnonzero(mine)
        runs = list(_spans(np.cumsum(sizes[where], dtype=np.int64), 0, len(where), limits[code]))
        turns = spread.take(name, len(runs)) % topics.sizes[code]
        partitions[where] = np.repeat(turns, [stop - start for start, stop in runs])


def _order(targets: Partitions, how_many: int) -> tuple[Longs | None, Longs]:
    """Sort rows by target, each target's in their own order, and count them."""
    counts = np.bincount(targets, minlength=how_many)
    if np.count_nonzero(counts) == 1:
        return None, counts
    # NumPy sorts 16-bit numbers by radix, in a fraction of the time that wider ones take.
    narrow = targets.astype(np.uint16) if how_many <= _RADIX_TARGETS else targets
    return np.argsort(narrow, kind="stable"), counts


def _spans(ends: Longs, start: int, stop: int, limit: int) -> Iterator[tuple[int, int]]:
    """Cut rows `start` to `stop` so that each span's bytes stay within limit, or it has one row."""
    while start < stop:
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + limit, side="right"))
        end = min(max(fitting, start + 1), stop)
        yield start, end
        start = end
