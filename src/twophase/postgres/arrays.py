"""Arrays as PostgreSQL reads them: dimensions, the type of what is in them, and each of that.

For what the encoder cannot do: arrays of arrays, and arrays of types whose number it does not know.
An array of PostgreSQL is a block: at each depth all arrays are as long as one another, and none is
null. What is no block, or would come back as another array, is refused.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final

import pgpq
import pyarrow as pa
from pyarrow import types

DEPTH_MAX: Final = 6
# Of a COPY, then for each row how many columns it has, then for each column its size.
_HEADER_BYTES: Final = 19
_COUNT_BYTES: Final = 2
_SIZE_BYTES: Final = 4


def is_array(kind: pa.DataType) -> bool:
    """Whether it is a type of arrays."""
    return bool(types.is_list(kind) or types.is_large_list(kind))


def innermost(kind: pa.DataType) -> tuple[pa.DataType, int]:
    """Return the type of what is in arrays of arrays, and how deep it is."""
    depth = 0
    while is_array(kind):
        kind, depth = kind.value_type, depth + 1
    return kind, depth


def inside(column: pa.Array, act: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return the arrays with what is in them converted; a slice is copied, and begins at 0 then."""
    whole = pa.concat_arrays([column])
    return type(whole).from_arrays(whole.offsets, act(whole.values), mask=whole.is_null())


def on_wire(column: pa.Array, oid: int, act: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Return each array as bytes; `act` converts what is in them to the type with this number."""
    levels, values = [], column
    while is_array(values.type):
        whole = pa.concat_arrays([values])
        levels.append((whole.offsets.to_pylist(), whole.is_null().to_pylist()))
        values = whole.values
    pieces = list(_pieces(act(values)))
    nulls = values.is_null().to_pylist()

    def sent(row: int) -> bytes | None:
        if levels[0][1][row]:
            return None
        sizes, first, end = _block(levels, row)
        if first == end:
            return struct.pack(">iii", 0, 0, oid)
        head = struct.pack(">iiI", len(sizes), any(nulls[first:end]), oid)
        each = (struct.pack(">ii", size, 1) for size in sizes)
        return head + b"".join(each) + b"".join(pieces[first:end])

    return pa.array(map(sent, range(len(column))), pa.binary())


def _block(levels: list[tuple[list[int], list[bool]]], row: int) -> tuple[list[int], int, int]:
    """Return how long the arrays are at each depth, and from where to where their values lie."""
    sizes: list[int] = []
    first, end = row, row + 1
    for offsets, nulls in levels:
        if any(nulls[first:end]):
            raise ValueError(
                "an array in an array is null; PostgreSQL has arrays of one size there"
            )
        found = {offsets[at + 1] - offsets[at] for at in range(first, end)}
        if len(found) > 1:
            raise ValueError(
                f"arrays of {min(found)} and {max(found)} elements are in one array; PostgreSQL "
                "has arrays of one size there; fill them up in the query, or write JSON"
            )
        sizes += found
        first, end = offsets[first], offsets[end]
        if first == end:
            break
    if first == end and len(sizes) > 1:
        raise ValueError("an array of empty arrays, which PostgreSQL takes for an empty array")
    return sizes, first, end


def _pieces(values: pa.Array) -> Iterator[bytes]:
    """Yield each value with its size before it, which a row of one column has as well."""
    encoder = pgpq.ArrowToPostgresBinaryEncoder(pa.schema([("value", values.type)]))
    batch = pa.RecordBatch.from_arrays([values], names=["value"])
    # The encoder keeps small pieces back until the end.
    rows = encoder.write_header() + encoder.write_batch(batch) + encoder.finish()
    at = _HEADER_BYTES
    for _ in range(len(values)):
        begin = at + _COUNT_BYTES
        (size,) = struct.unpack_from(">i", rows, begin)
        # The size of a null is below 0.
        at = begin + _SIZE_BYTES + max(size, 0)
        yield rows[begin:at]
