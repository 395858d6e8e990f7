"""Pieces of bytes, put together row by row by a single Arrow kernel.

A record is a row of pieces: varints, key, value. Arrow's binary view is a piece by reference: 16
bytes with a length and either up to twelve bytes of content or the place of the content in some
buffer. Laying out the views of all rows side by side is plain arithmetic on columns, any order of
the rows included, and casting the views to binary copies every byte exactly once. Half the time of
taking keys and values into order and joining columns, measured on 100-byte values. Arrow builds
views from buffers, and casts them, since version 19.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from twophase.kafka.columns import offsets_of, with_offsets
from twophase.kafka.varint import Field, Ints, Words

_INLINE_BYTES: Final = 12
_WORD_BYTES: Final = 8
_MOST_BYTES: Final = 2**31 - 1
_HALF: Final = np.uint64(32)

# The two words of a view: length and first four bytes; the rest, or buffer number and place.
View: TypeAlias = tuple[Words | int, Words | int]
Choice: TypeAlias = slice | npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ragged:
    """A byte column as plain numbers: where each row begins in `data`, its length, -1 for null."""

    starts: Ints
    lengths: Ints
    data: pa.Buffer
    has_nulls: bool

    @classmethod
    def of(cls, column: pa.Array, lengths: Ints) -> "Ragged":
        """Refer to a column whose lengths are known."""
        plain = with_offsets(column)
        offsets = offsets_of(plain)
        if int(offsets[-1]) - int(offsets[0]) > _MOST_BYTES:
            # Nulls may hide bytes, and a view's place has 32 bits. What is in sight is far less.
            plain = plain.fill_null(b"")
            offsets = offsets_of(plain)
        begin, end, data = int(offsets[0]), int(offsets[-1]), plain.buffers()[2]
        used = pa.py_buffer(b"") if data is None else data.slice(begin, end - begin)
        return cls(offsets[:-1] - offsets[0], lengths, used, bool(column.null_count))

    def take(self, choice: Choice) -> "Ragged":
        """Choose rows; the bytes stay where they are."""
        return Ragged(self.starts[choice], self.lengths[choice], self.data, self.has_nulls)

    def sizes(self) -> Ints:
        """Return the bytes of every row, none for null."""
        return np.maximum(self.lengths, 0) if self.has_nulls else self.lengths

    def view(self, buffer: int) -> View:
        """View the bytes of every row as lying in the buffer of that number."""
        sizes = self.sizes()
        longest, shortest = int(sizes.max()), int(sizes.min())
        if shortest > _INLINE_BYTES:
            return _by_reference(self.starts, sizes, buffer)
        here = _inline(self.data, self.starts, sizes, min(longest, _INLINE_BYTES))
        if longest <= _INLINE_BYTES:
            return here
        # Reading twelve bytes of a longer row does no harm, and costs less than sorting rows out.
        there, short = _by_reference(self.starts, sizes, buffer), sizes <= _INLINE_BYTES
        return np.where(short, here[0], there[0]), np.where(short, here[1], there[1])


@dataclass(frozen=True, slots=True)
class Joined:
    """The bytes of all rows, one after the other; `offsets` has one more entry than rows."""

    offsets: npt.NDArray[np.int32]
    data: pa.Buffer


def view_of_field(field: Field) -> View:
    """View the bytes of a field; they always fit into the view itself."""
    if isinstance(field.word, int):
        low: Any = (field.word & 0xFFFFFFFF) << 32
        return (low | field.size, field.word >> 32)
    low = field.word << _HALF
    low |= np.uint64(field.size) if isinstance(field.size, int) else field.size
    return low, field.word >> _HALF


def join(views: Sequence[View], rows: int, buffers: Sequence[pa.Buffer]) -> Joined:
    """Put the views of each row together, row after row."""
    table = np.empty((rows, 2 * len(views)), np.uint64)
    for at, (low, high) in enumerate(views):
        table[:, 2 * at] = low
        table[:, 2 * at + 1] = high
    views_array = pa.Array.from_buffers(
        pa.binary_view(), rows * len(views), [None, pa.py_buffer(table), *buffers]
    )
    _, offsets, data = views_array.cast(pa.binary()).buffers()
    return Joined(np.frombuffer(offsets, np.int32, rows * len(views) + 1)[:: len(views)], data)


def _by_reference(starts: Ints, lengths: Ints, buffer: int) -> View:
    # The four bytes beside the length would speed up comparing; nobody compares.
    place = starts.astype(np.uint64)
    place <<= _HALF
    if buffer:
        place |= np.uint64(buffer)
    return lengths.astype(np.uint64), place


def _inline(data: pa.Buffer, starts: Ints, lengths: Ints, longest: int) -> View:
    """View up to twelve bytes by content; what the view has beyond its length is never read."""
    first = _read(data, starts)
    low = first << _HALF
    low |= lengths.astype(np.uint64)
    high = first >> _HALF
    if longest > _WORD_BYTES:
        high |= _read(data, starts + _WORD_BYTES) << _HALF
    return low, high


def _read(data: pa.Buffer, starts: Ints) -> Any:
    """Read eight bytes anywhere; those beyond the end of the data are zero."""
    last = data.size - _WORD_BYTES
    if last < 0:
        data, last = pa.py_buffer(data.to_pybytes().ljust(_WORD_BYTES, b"\0")), 0
    everywhere: Any = np.ndarray((last + 1,), "<u8", data, 0, (1,))
    if int(starts.max()) <= last:
        return everywhere[starts]
    # A row near the end: read the last eight bytes and shift out those before the row.
    fitting = np.minimum(starts, last)
    return everywhere[fitting] >> ((starts - fitting).astype(np.uint64) << np.uint64(3))
