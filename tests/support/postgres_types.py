"""Every type that Spark's own JDBC writer maps for PostgreSQL, alone, in arrays and in blocks."""

import datetime as dt
import math
from decimal import Decimal
from typing import NamedTuple

from pyspark.sql.types import ArrayType, StructField, StructType, _parse_datatype_string

# By this Spark tells text of a certain length, which is plain text to all but a few of its sinks.
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"


class Kind(NamedTuple):
    """A type of Spark, what its JDBC writer makes of it in PostgreSQL, and two values."""

    spark: str
    postgres: str
    one: object
    other: object


KINDS = [
    Kind("boolean", "boolean", one=True, other=False),
    Kind("tinyint", "smallint", -128, 127),
    Kind("smallint", "smallint", -(2**15), 2**15 - 1),
    Kind("int", "integer", -(2**31), 2**31 - 1),
    Kind("bigint", "bigint", -(2**63), 2**63 - 1),
    Kind("float", "real", 1.5, -math.inf),
    Kind("double", "double precision", math.nan, 5e-324),
    Kind("decimal(12,2)", "numeric(12,2)", Decimal("-1234567890.12"), Decimal("0.01")),
    Kind("decimal(38,0)", "numeric(38,0)", Decimal("9" * 38), Decimal("-" + "9" * 38)),
    Kind("decimal(38,38)", "numeric(38,38)", Decimal("0." + "9" * 38), Decimal("-0." + "1" * 38)),
    Kind("string", "text", 'ünï ✓ 𝄞 "x", {y}\\', ""),
    Kind("char(3)", "character(3)", "abc", "a  "),
    Kind("varchar(5)", "character varying(5)", "NULL", " b "),
    Kind("binary", "bytea", b"\x00\xff\\", b""),
    Kind("date", "date", dt.date(1900, 1, 1), dt.date(2026, 11, 16)),
    Kind(
        "timestamp",
        "timestamp with time zone",
        dt.datetime(2026, 11, 16, 12, 30, 59, 123456, tzinfo=dt.UTC),
        dt.datetime(1950, 7, 1, tzinfo=dt.UTC),
    ),
    Kind(
        "timestamp_ntz",
        "timestamp without time zone",
        dt.datetime(2026, 3, 29, 2, 30, 0, 1),  # noqa: DTZ001
        dt.datetime(1950, 7, 1),  # noqa: DTZ001
    ),
]


def columns(kinds=KINDS):
    """Return what CREATE TABLE takes: each type alone, as an array, and as an array of arrays."""
    made = (
        f"{name} {kind.postgres}{brackets}"
        for at, kind in enumerate(kinds)
        for name, brackets in ((f"one{at}", ""), (f"many{at}", "[]"), (f"block{at}", "[][]"))
    )
    return ", ".join(("id int PRIMARY KEY", *made))


def rows(kinds=KINDS):
    """Values, nothing but empty arrays, and nothing but nulls."""
    full, empty = [0], [1]
    for kind in kinds:
        one, other = kind.one, kind.other
        full += [one, [one, None, other], [[one, other], [other, None]]]
        empty += [other, [], []]
    return [tuple(full), tuple(empty), (2, *[None] * (3 * len(kinds)))]


def frame(spark, kinds=KINDS):
    """Return the rows as Spark has them."""
    return spark.createDataFrame(rows(kinds), _schema(kinds))


def same(found, wanted):
    """Whether two values are equal, where what is no number equals itself."""
    if isinstance(wanted, list | tuple):
        return (
            isinstance(found, list | tuple)
            and len(found) == len(wanted)
            and all(map(same, found, wanted))
        )
    if isinstance(wanted, float) and math.isnan(wanted):
        return isinstance(found, float) and math.isnan(found)
    return type(found) is type(wanted) and found == wanted


def _schema(kinds):
    fields = [StructField("id", _parse_datatype_string("int"))]
    for at, kind in enumerate(kinds):
        sized = kind.spark.startswith(("char", "varchar"))
        one = _parse_datatype_string("string" if sized else kind.spark)
        for name, found, shown in (
            (f"one{at}", one, "{}"),
            (f"many{at}", ArrayType(one), "array<{}>"),
            (f"block{at}", ArrayType(ArrayType(one)), "array<array<{}>>"),
        ):
            metadata = {_LENGTH: shown.format(kind.spark)} if sized else {}
            fields.append(StructField(name, found, metadata=metadata))
    return StructType(fields)
