"""Arrow rows in the binary form that COPY reads, in the table's own types.

A column at a time, no Python for each row but where PostgreSQL's form of a value is found in no
library (uuid, arrays of arrays, arrays of moments and the like). What would lose anything on the
way is refused, not rounded.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

import pgpq
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from twophase.errors import ConfigurationError, RowRejected
from twophase.postgres.arrays import DEPTH_MAX, innermost, inside, is_array, on_wire

_FIRST_US: Final = -210_866_803_200_000_000
# The form of Arrow in which each type of PostgreSQL goes on the wire.
_WIRE: Final[dict[str, pa.DataType]] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "varchar": pa.string(),
    "bpchar": pa.string(),
    "json": pa.string(),
    "enum": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "interval": pa.duration("us"),
}
_INT64_DIGITS: Final = 19
_TEXT: Final = "text varchar bpchar json jsonb uuid enum"
# What each kind of column may be written to, by PostgreSQL's own names.
_FITS: Final[tuple[tuple[Callable[[Any], bool], str], ...]] = (
    (types.is_boolean, "bool"),
    (types.is_integer, "int2 int4 int8 numeric float4 float8"),
    (types.is_floating, "float4 float8"),
    (types.is_decimal, "numeric float4 float8"),
    (types.is_string, _TEXT),
    (types.is_large_string, _TEXT),
    (types.is_date, "date timestamp"),
    (types.is_binary, "bytea"),
    (types.is_large_binary, "bytea"),
    (types.is_duration, "interval"),
)
# An array on the wire names the type of what is in it, by the number that it has everywhere.
_OIDS: Final = {
    "bool": 16,
    "bytea": 17,
    "int8": 20,
    "int2": 21,
    "int4": 23,
    "text": 25,
    "json": 114,
    "float4": 700,
    "float8": 701,
    "bpchar": 1042,
    "varchar": 1043,
    "date": 1082,
    "timestamp": 1114,
    "timestamptz": 1184,
    "interval": 1186,
    "numeric": 1700,
    "uuid": 2950,
    "jsonb": 3802,
}
# Those of which the encoder cannot write arrays.
_SLOW: Final = frozenset(("json", "bpchar", "varchar", "timestamptz", "interval", "uuid", "jsonb"))


def allowed_for(kind: pa.DataType) -> tuple[str, ...]:
    """Return the types of PostgreSQL that a column of this type can be written to."""
    if is_array(kind):
        within, depth = innermost(kind)
        found = allowed_for(within) if depth <= DEPTH_MAX else ()
        return tuple(f"{each}[]" for each in found if each in _OIDS)
    if types.is_timestamp(kind):
        # Without a zone it is no moment: which one was meant is the query's to say.
        return ("timestamp",) if kind.tz is None else ("timestamptz", "timestamp")
    for matches, names in _FITS:
        if matches(kind):
            return tuple(names.split())
    return ()


class Encoder:
    """Rows of one schema for one list of columns; `columns` has the type of each by its name."""

    def __init__(self, schema: pa.Schema, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._encoder = pgpq.ArrowToPostgresBinaryEncoder(
            self._on_wire(pa.RecordBatch.from_pylist([], schema)).schema
        )

    def header(self) -> bytes:
        """Return how a COPY begins."""
        return self._encoder.write_header()

    def rows(self, rows: pa.RecordBatch) -> bytes:
        """Return the rows; refuse a value that its column cannot hold."""
        cells = self._on_wire(rows)
        try:
            return self._encoder.write_batch(cells)
        except ValueError as error:
            raise RowRejected(f"a row has a value that cannot be sent: {error}") from error

    def trailer(self) -> bytes:
        """Return how a COPY ends."""
        return self._encoder.finish()

    def _on_wire(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        names = rows.schema.names
        cells = [_cells(n, column, self._columns[n]) for n, column in zip(names, rows, strict=True)]
        return pa.RecordBatch.from_arrays(cells, names=names)


def _cells(name: str, column: pa.Array, to: str) -> pa.Array:
    if to not in allowed_for(column.type):
        raise ConfigurationError(f"the column {name} is of type {column.type}, not for {to}")
    try:
        _check_moments(column)
        return _converted(column, to)
    except (pa.ArrowInvalid, ValueError, struct.error) as error:
        if "timezone" in str(error):
            raise ConfigurationError(
                f"the column {name} is a moment, and the session's time zone {column.type} is not "
                "known here; set spark.sql.session.timeZone to a name such as Europe/Berlin"
            ) from error
        raise RowRejected(
            f"the column {name} has a value that {to} cannot hold: {str(error)[:200]}"
        ) from error


def _converted(column: pa.Array, to: str) -> pa.Array:
    kind = column.type
    if to.endswith("[]"):
        return _arrays(column, to.removesuffix("[]"))
    if to == "uuid":
        values = column.to_pylist()
        return pa.array((None if v is None else UUID(v).bytes for v in values), pa.binary())
    if to == "jsonb":
        # The version of its form goes before the text.
        return pc.binary_join_element_wise(b"\x01", column.cast(pa.binary()), b"")
    if to == "timestamp" and types.is_timestamp(kind) and kind.tz is not None:
        return pc.local_timestamp(column)
    if to == "float4" and types.is_float64(kind):
        return _narrowed(column)
    return column.cast(_wire(to, kind))


def _arrays(column: pa.Array, to: str) -> pa.Array:
    def convert(values: pa.Array) -> pa.Array:
        return _converted(values, to)

    if to not in _SLOW and not is_array(column.type.value_type):
        return inside(column, convert)
    return on_wire(column, _OIDS[to], convert)


def _narrowed(column: pa.Array) -> pa.Array:
    """Return float4 for float8: rounded, but neither to infinity nor to nothing."""
    narrow = column.cast(pa.float32())
    too_large = pc.and_(pc.is_inf(narrow), pc.is_finite(column))
    too_small = pc.and_(pc.equal(narrow, 0), pc.not_equal(column, 0))
    if pc.any(pc.or_(too_large, too_small)).as_py():
        raise ValueError("a number is out of the range of float4")
    return narrow


def _check_moments(column: pa.Array) -> None:
    """Refuse what is before PostgreSQL's first day; at the far end it goes further than Spark."""
    values = column
    while is_array(values.type):
        values = values.flatten()
    if types.is_timestamp(values.type) and len(values):
        first = pc.min(values.cast(pa.timestamp("us")).cast(pa.int64())).as_py()
        if first is not None and first < _FIRST_US:
            raise ValueError("a moment is before 4713 BC")


def _wire(to: str, kind: pa.DataType) -> pa.DataType:
    if to != "numeric":
        return _WIRE[to]
    return kind if types.is_decimal(kind) else pa.decimal128(_INT64_DIGITS, 0)
