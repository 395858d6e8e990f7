"""Varints by the column, against the plain loop of the specification."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.kafka.varint import Field, counting, merge, size_of, sizes_of, total_size, varints

LONGS = st.one_of(
    st.integers(-1, 200),
    st.integers(-1, 2**14 + 5),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**62), 2**62 - 1),
    st.sampled_from([2**63 - 1, -(2**63), 2**55 - 1, 2**55, 2**56, -(2**55), -(2**55) - 1]),
)
INTS = st.integers(-(2**31), 2**31 - 1)


def plain(value):
    """Write one varint, byte by byte."""
    zigzag = ((value << 1) ^ (value >> 63)) & (2**64 - 1)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes(out) + bytes([zigzag])


def unpacked(fields, rows):
    """Return the bytes of every row, and check that those beyond a field's size are zero."""
    out = [b""] * rows
    for field in fields:
        words = np.broadcast_to(np.asarray(field.word, np.uint64), rows).tolist()
        sizes = np.broadcast_to(np.asarray(field.size), rows).tolist()
        for row, (word, size) in enumerate(zip(words, sizes, strict=True)):
            assert size <= field.width <= 8
            out[row] += word.to_bytes(8, "little")[:size]
            assert word >> 8 * size == 0
    return out


def all_sizes(column):
    """Return the size of every row, where one number may stand for all."""
    return np.broadcast_to(sizes_of(column), len(column)).tolist()


@settings(max_examples=1000, deadline=None)
@given(st.lists(LONGS, min_size=1, max_size=40))
def test_longs(values):
    """Every 64-bit number becomes the bytes of the specification, and its size is known."""
    column = np.array(values, np.int64)
    wanted = [plain(value) for value in values]
    assert unpacked(varints(column), len(values)) == wanted
    assert all_sizes(column) == [len(one) for one in wanted]
    assert [size_of(value) for value in values] == [len(one) for one in wanted]


@pytest.mark.parametrize("edge", [2**6, 2**13, 2**14, 2**20, 2**27, 2**34, 2**55, 2**62])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_edges(edge, kind):
    """One more or less than a power of two, beside null and a small number."""
    values = [value for value in (edge - 1, edge, edge + 1) if value <= np.iinfo(kind).max]
    for value in values:
        for others in ([], [0], [-1], [-1, 5]):
            column = [value, *others]
            wanted = [plain(one) for one in column]
            assert unpacked(varints(np.array(column, kind)), len(column)) == wanted
            assert all_sizes(np.array(column, kind)) == [len(one) for one in wanted]


@settings(max_examples=300, deadline=None)
@given(st.lists(INTS, min_size=1, max_size=40))
def test_ints(values):
    """A column of 32 bits gives the same bytes."""
    column = np.array(values, np.int32)
    assert unpacked(varints(column), len(values)) == [plain(value) for value in values]
    assert all_sizes(column) == [len(plain(value)) for value in values]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_merged_fields(data):
    """Fields side by side keep their bytes and their total size."""
    rows = data.draw(st.integers(1, 10))
    columns = data.draw(
        st.lists(st.lists(LONGS, min_size=rows, max_size=rows), min_size=1, max_size=6)
    )
    fields = [field for column in columns for field in varints(np.array(column, np.int64))]
    wanted = [b"".join(plain(column[row]) for column in columns) for row in range(rows)]
    merged = merge(fields)
    assert unpacked(merged, rows) == wanted
    sizes = np.broadcast_to(total_size(fields), rows).tolist()
    assert sizes == [len(one) for one in wanted]
    assert len(merged) <= len(fields)


@pytest.mark.parametrize("counts", [[1], [3], [64], [65, 1, 9000], [5, 2**14 + 3], [2**14]])
def test_counting(counts):
    """Offsets within blocks start at zero again in every block."""
    wanted = [plain(number) for count in counts for number in range(count)]
    assert unpacked([counting(counts)], sum(counts)) == wanted


def test_one_size_is_known_as_one():
    """Lengths that all take two bytes need no size per row."""
    (field,) = varints(np.array([100, 200, 300], np.int32))
    assert isinstance(field, Field)
    assert field.size == 2
