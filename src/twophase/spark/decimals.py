"""Decimals on their way to the Python workers: sent as whole numbers, and decimals again there.

Spark brings a decimal into Arrow by way of a BigDecimal, a BigInteger and an array of bytes, though
one of up to 18 digits is a long with a scale in its own rows. The long alone is written as fast as
any other.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import DecimalType

from twophase.spark.connect import over_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LONG_DIGITS: Final = 18
_LONG: Final = pa.decimal128(19, 0)


@dataclass(frozen=True, slots=True)
class Whole:
    """Which columns of a frame are sent as whole numbers, and the type that each is in truth."""

    kinds: Mapping[str, pa.DataType]

    def restored(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows as the frame had them."""
        for batch in batches:
            yield self._restored(batch) if self.kinds else batch

    def _restored(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            # The same 16 bytes with another scale.
            column.cast(_LONG).view(self.kinds[name]) if name in self.kinds else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def as_whole(frame: "DataFrame") -> "tuple[DataFrame, Whole]":
    """Return the frame with its shorter decimals as whole numbers, and how to get them back."""
    kinds: dict[str, pa.DataType] = {}
    for field in frame.schema.fields:
        kind = field.dataType
        if isinstance(kind, DecimalType) and kind.precision <= _LONG_DIGITS:
            kinds[field.name] = pa.decimal128(kind.precision, kind.scale)
    distinct = {name.lower() for name in frame.columns}
    if not kinds or over_connect(frame.sparkSession) or len(distinct) < len(frame.columns):
        return frame, Whole({})
    columns = [
        _whole(frame, name) if name in kinds else _named(frame, name) for name in frame.columns
    ]
    return frame.select(*columns), Whole(kinds)


def _named(frame: "DataFrame", name: str) -> Any:
    return frame["`" + name.replace("`", "``") + "`"]


def _whole(frame: "DataFrame", name: str) -> Any:
    """Return the decimal's digits as a long: an expression of Spark that has no name in SQL."""
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001
    columns = jvm.org.apache.spark.sql.classic.ExpressionUtils
    found = _named(frame, name)
    digits = jvm.org.apache.spark.sql.catalyst.expressions.UnscaledValue
    return type(found)(columns.column(digits(columns.expression(found._jc)))).alias(name)  # noqa: SLF001
