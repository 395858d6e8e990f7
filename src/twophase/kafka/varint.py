"""Kafka's variable-length integers, a whole column at a time.

A column of varints is one machine word per row, first byte lowest, beside the number of bytes in
use. Neighbouring columns are merged by shifts, so that the five small numbers before a record's key
become one word per row.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Sizes: TypeAlias = npt.NDArray[np.uint8]

_WORD_BYTES: Final = 8
_WORD_BITS: Final = 7 * _WORD_BYTES  # what a varint of eight bytes can hold
_CONTINUED: Final = 0x8080_8080_8080_8080


@dataclass(frozen=True, slots=True)
class Field:
    """At most eight bytes per row; plain ints where every row has the same.

    A word's bytes beyond its size are zero.
    """

    word: Words | int
    size: Sizes | int
    width: int


ZERO: Final = Field(0, 1, 1)


def size_of(value: int) -> int:
    """Return the bytes that the varint of `value` takes."""
    return max(1, -(-((value << 1) ^ (value >> 63)).bit_length() // 7))


def sizes_of(values: Ints) -> npt.NDArray[np.int64] | int:
    """Return the bytes that the varint of each value takes; one number where all take the same."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if low >= -1 and size_of(max(low, 0)) == size_of(high):
        return size_of(high)
    zigzag = _zigzag(values)
    sizes = np.ones(len(values), np.int64)
    for shift in range(7, int(zigzag.max()).bit_length(), 7):
        sizes += zigzag >= zigzag.dtype.type(1 << shift)
    return sizes


def varints(values: Ints) -> tuple[Field, ...]:
    """Write each value as a zig-zag varint: one field, or two where some exceed eight bytes."""
    low, high = int(values.min()), int(values.max())
    width = max(size_of(low), size_of(high))
    if low == high and width <= _WORD_BYTES:
        return (_constant(low, width),)
    if low >= -1 and high < _TABLED:
        word, size = _TABLE
        same_size = low >= 0 and size_of(low) == width
        return (Field(word[values], width if same_size else size[values], width),)
    zigzag = _zigzag(values)
    if width <= _WORD_BYTES:
        return (_spread(zigzag, width),)
    rest = zigzag >> np.uint64(_WORD_BITS)
    continued = rest > 0
    head, tail = _spread(zigzag & np.uint64((1 << _WORD_BITS) - 1), _WORD_BYTES), _spread(rest, 2)
    return (
        Field(
            np.where(continued, head.word | np.uint64(_CONTINUED), head.word),
            np.where(continued, np.uint8(_WORD_BYTES), head.size),
            _WORD_BYTES,
        ),
        Field(tail.word, np.where(continued, tail.size, np.uint8(0)), 2),
    )


def counting(counts: Sequence[int]) -> Field:
    """Write 0, 1, 2 … as varints, starting again after each of the counts."""
    most = max(counts)
    if most > _TABLED:
        return varints(np.concatenate([np.arange(count, dtype=np.int32) for count in counts]))[0]
    word, size = _TABLE
    if len(counts) == 1:
        return Field(word[:most], size[:most], size_of(most - 1))
    words = np.concatenate([word[:count] for count in counts])
    return Field(words, np.concatenate([size[:count] for count in counts]), size_of(most - 1))


def total_size(fields: Iterable[Field]) -> Sizes | int:
    """Return the bytes that the fields take together, per row."""
    total: Any = 0
    for field in fields:
        total = field.size + total
    return total  # type: ignore[no-any-return]


def merge(fields: Iterable[Field]) -> list[Field]:
    """Put the same bytes into as few fields as words of eight bytes allow."""
    merged: list[Field] = []
    for field in fields:
        if merged and merged[-1].width + field.width <= _WORD_BYTES:
            merged[-1] = _append(merged[-1], field)
        else:
            merged.append(field)
    return merged


def _zigzag(values: Ints) -> Any:
    bits = 8 * values.dtype.itemsize
    return ((values << 1) ^ (values >> (bits - 1))).view(f"u{values.dtype.itemsize}")


def _constant(value: int, width: int) -> Field:
    zigzag = (value << 1) ^ (value >> 63)
    word = sum(((zigzag >> 7 * at) & 0x7F) << 8 * at for at in range(width))
    return Field(word | (_CONTINUED & ((1 << 8 * (width - 1)) - 1)), width, width)


def _spread(zigzag: Any, width: int) -> Field:
    """Give each seven bits of a number a byte of their own, and mark all bytes but the last."""
    if width == 1:
        return Field(zigzag.astype(np.uint64), 1, 1)
    kind: Any = np.uint32 if width <= _WORD_BYTES // 2 else np.uint64
    number = zigzag.astype(kind, copy=False)
    word = number & kind(0x7F)
    size = np.ones(len(number), np.uint8)
    for at in range(1, width):
        continued = number >= kind(1 << 7 * at)
        size += continued
        moved = number << kind(at)
        moved &= kind(0x7F << 8 * at)
        word |= moved
        mark = continued.astype(kind)
        mark <<= kind(8 * at - 1)
        word |= mark
    return Field(word.astype(np.uint64, copy=False), size, width)


def _table(end: int) -> tuple[Words, Sizes]:
    field = _spread(_zigzag(np.append(np.arange(end), -1)), size_of(end))
    return np.asarray(field.word), np.asarray(field.size)


def _append(left: Field, right: Field) -> Field:
    width = left.width + right.width
    if isinstance(left.size, int):
        if isinstance(right.word, int) and isinstance(left.word, int):
            return Field(left.word | right.word << 8 * left.size, left.size + right.size, width)
        moved: Any = _words(right.word) << np.uint64(8 * left.size)
    else:
        moved = _words(right.word) << (left.size.astype(np.uint64) << np.uint64(3))
    moved |= _words(left.word)
    size: Any = left.size + right.size
    return Field(moved, size, width)


def _words(word: Words | int) -> Any:
    return np.uint64(word) if isinstance(word, int) else word


# The varints of lengths and offsets are nearly always small: looking them up is twice as fast as
# computing them. The last entry is that of -1, which is where NumPy finds index -1.
_TABLED: Final = 2**14
_TABLE: Final = _table(_TABLED)
