"""The bound on what the tasks of a small batch hand back to the driver, in two expressions.

The executors evaluate them: rows beyond the bound come back empty and flagged, or not at all.
"""

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from twophase.spark.columns import byte_sizes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What all tasks together may hand back, and what a row costs beside its own bytes.
_BUDGET_BYTES: Final = 64_000_000
_ROW_BYTES: Final = 64
_SHARES_MIN: Final = 8
_POSITION_BITS: Final = 33
_ROW: Final = "twophase_row"


def share_of(tasks: int) -> int:
    """Return the bytes that each of so many tasks may hand back; alike for like numbers of them."""
    return _BUDGET_BYTES // max(_SHARES_MIN, 1 << (tasks - 1).bit_length())


def bounded(frame: "DataFrame", share_bytes: int) -> "DataFrame":
    """Return the frame's rows as structs, which are null for rows that are too many or too large.

    A row is kept while its weight times its position in its task is within `share_bytes`: rows of
    like size then stay within the share together, and the worst mixture of sizes within the share
    times the logarithm of their number. The first row beyond is always there, as a null.

    Written as texts, in two steps and with one column: a tree of columns costs a call of the JVM
    for each of its nodes, every step an analysis, every column its share of planning. The filter
    lets through the first rows of a task, so that both steps count alike.
    """
    position = f"(monotonically_increasing_id() & {(1 << _POSITION_BITS) - 1})"
    light = f"({position} + 1) * ({_weight(frame.columns)}) <= {share_bytes}"
    fields = ", ".join(_nullable(field) for field in frame.schema.fields)
    few = frame.where(f"{position} <= {share_bytes // _ROW_BYTES}")
    return few.selectExpr(f"CASE WHEN {light} THEN struct({fields}) END AS {_ROW}")


def _nullable(field: Any) -> str:
    """Return a field for a struct that may be null: PySpark takes such a one for a fault else."""
    name = f"`{field.name}`"
    return name if field.nullable else f"IF(true, {name}, NULL) AS {name}"


def within(table: pa.Table) -> pa.Table | None:
    """Return the rows of a bounded frame as columns; None where not all of them are there."""
    rows = table.column(_ROW)
    if rows.null_count:
        return None
    return pa.Table.from_struct_array(rows)


def _weight(columns: list[str]) -> str:
    terms = [f"{_ROW_BYTES}L", *byte_sizes(columns).values()]
    if "headers" in columns:
        sizes = "coalesce(octet_length(h.key), 0) + coalesce(octet_length(h.value), 0)"
        added = f"(total, h) -> total + {_ROW_BYTES} + {sizes}"
        terms.append(f"coalesce(aggregate(headers, 0L, {added}), 0L)")
    return " + ".join(terms)
