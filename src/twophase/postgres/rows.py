"""Arrow rows as the CSV that COPY reads: all values of a column at once, no Python per row."""

import io
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, types

from twophase.errors import ConfigurationError

_OPTIONS: Final = csv.WriteOptions(include_header=False, quoting_style="needed")
# What each kind of column may be written to, by PostgreSQL's own names.
_FITS: Final[tuple[tuple[Callable[[Any], bool], str], ...]] = (
    (types.is_boolean, "bool"),
    (types.is_integer, "int2 int4 int8 numeric float4 float8"),
    (types.is_floating, "float4 float8 numeric"),
    (types.is_decimal, "numeric float4 float8"),
    (types.is_string, "text varchar bpchar json jsonb uuid"),
    (types.is_large_string, "text varchar bpchar json jsonb uuid"),
    (types.is_date, "date timestamp timestamptz"),
    (types.is_timestamp, "timestamp timestamptz"),
    (types.is_binary, "bytea"),
    (types.is_large_binary, "bytea"),
)


def allowed_for(kind: pa.DataType) -> tuple[str, ...]:
    """Return the types of PostgreSQL that a column of this type can be written to."""
    for matches, names in _FITS:
        if matches(kind):
            return tuple(names.split())
    return ()


def as_csv(rows: pa.RecordBatch) -> bytes:
    """Return the rows as CSV in which null and empty text differ."""
    columns = [_written(name, column) for name, column in zip(rows.schema.names, rows, strict=True)]
    sink = io.BytesIO()
    csv.write_csv(pa.Table.from_arrays(columns, names=rows.schema.names), sink, _OPTIONS)
    return sink.getvalue()


def _written(name: str, column: pa.Array) -> pa.Array:
    kind = column.type
    if not allowed_for(kind):
        raise ConfigurationError(f"the column {name} is of type {kind}, which is not written yet")
    if types.is_binary(kind) or types.is_large_binary(kind):
        texts = [None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    if types.is_decimal(kind):
        return pc.cast(column, pa.string())
    return column
