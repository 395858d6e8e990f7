"""Which partition a row goes to: the Java client's choice for a key, hashed a column at a time."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from twophase.kafka.columns import offsets_of
from twophase.kafka.varint import Ints

Hashes: TypeAlias = npt.NDArray[np.uint32]

_M = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)
_TAIL_MASK = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)

# Below this many rows a step of the columnar loop costs more than the same step on Python ints.
_FEW_ROWS = 48


def partitions_of(keys: pa.Array, counts: Ints | int) -> Hashes:
    """Give each key the partition that Java does; `counts` is per row, or one for all."""
    return (murmur2(keys) & np.uint32(0x7FFFFFFF)) % np.asarray(counts, np.uint32)


def murmur2(keys: pa.Array) -> Hashes:
    """Hash every key as Java's `Utils.murmur2` does; what a null key gets is of no meaning."""
    if not len(keys):
        return np.empty(0, np.uint32)
    offsets = offsets_of(keys)
    lengths = (offsets[1:] - offsets[:-1]).astype(np.int32)
    hashes = lengths.astype(np.uint32) ^ _SEED
    words = _words(keys, offsets)
    longest = int(lengths.max())
    if longest == int(lengths.min()):
        # Keys of one length lie at even distances: a slice reads them, without an index.
        for place in range(0, longest - 3, 4):
            hashes = _mixed(hashes, words[place :: max(longest, 1)][: len(keys)])
        rest = words[longest & ~3 :: max(longest, 1)][: len(keys)]
    else:
        starts = offsets[:-1] - offsets[0]
        _mix_ragged(hashes, words, starts, lengths >> 2)
        rest = words[starts + (lengths & ~3)]
    tails = lengths & 3
    rest = rest & np.take(_TAIL_MASK, tails)
    np.copyto(hashes, (hashes ^ rest) * _M, where=tails > 0)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _words(keys: pa.Array, offsets: Ints) -> Any:
    """Read the keys' bytes as words, one at every byte; four bytes more make all of them whole."""
    begin, end = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(end - begin + 4, np.uint8)
    if end > begin:
        padded[:-4] = np.frombuffer(keys.buffers()[2], np.uint8)[begin:end]
    return np.ndarray((end - begin + 1,), "<u4", padded, 0, (1,))


def _mix_ragged(hashes: Hashes, words: Any, starts: Ints, counts: npt.NDArray[np.int32]) -> None:
    """Mix every key's whole words into its hash, in place.

    Rows that are done are dropped from the working set whenever they are the greater part of it,
    and the last few long keys are finished one by one: work grows with the bytes, not with the
    rows times the longest key.
    """
    rows: npt.NDArray[np.int64] | None = None
    here, at, left, last = hashes, starts, counts, len(words) - 1
    for step in range(int(counts.max())):
        active = left > step
        alive = int(np.count_nonzero(active))
        if 2 * alive < len(active):
            if rows is not None:
                hashes[rows] = here
            chosen = np.flatnonzero(active)
            rows = chosen if rows is None else rows[chosen]
            here, at, left, active = here[chosen], at[chosen], left[chosen], active[chosen]
        if alive < _FEW_ROWS:
            for row in np.flatnonzero(active):
                place = int(at[row]) + 4 * step
                key_words = words[place : int(at[row]) + 4 * int(left[row]) : 4]
                here[row] = _mixed_one(int(here[row]), key_words)
            break
        found = words[np.minimum(at + 4 * step, last)]
        np.copyto(here, _mixed(here, found), where=active)
    if rows is not None:
        hashes[rows] = here


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    return (hashes * _M) ^ _scrambled(words)


def _mixed_one(hashed: int, words: Hashes) -> int:
    multiplier = int(_M)
    for word in _scrambled(words).tolist():
        hashed = (hashed * multiplier & 0xFFFFFFFF) ^ word
    return hashed


def _scrambled(words: Hashes) -> Hashes:
    scrambled = words * _M
    scrambled ^= scrambled >> np.uint32(24)
    scrambled *= _M
    return scrambled
