"""Rows that go to the Python workers without being weighed one by one.

Spark bounds an Arrow batch by its rows and by its bytes, and for the bytes it asks every column for
its size after every row: for rows of a hundred bytes that costs more than to write them. Where no
row is heavier than a batch's bytes divided by its rows, the bound by rows holds both. So the light
form of a frame has no such row: it comes empty and flagged. Then the rows are not light, and the
batch is encoded again, weighed.

A wrong guess costs what was computed until the first heavy row. Where the plan has to shuffle
before, that may be nearly all of it, and so nothing is guessed there.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from twophase.spark.connect import over_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES: Final = 64_000_000
_SHARE_MIN_BYTES: Final = 1_000
_SIZED: Final = ("key", "value", "topic")
_FLAG: Final = "twophase_heavy"


class HeavyRows(Exception):
    """There is a row that is not light."""


def light_rows(frame: "DataFrame") -> "DataFrame | None":
    """Return the light form of the frame; None where there is none or it would be no gain.

    Headers would have to be weighed by an expression that is slower than what it saves.
    """
    session = frame.sparkSession
    if over_connect(session) or "headers" in frame.columns:
        return None
    rows = int(session.conf.get(_SETTING) or 0)
    share_bytes = _BATCH_BYTES // rows if rows > 0 else 0
    if share_bytes < _SHARE_MIN_BYTES:
        return None
    sizes = (f"coalesce(octet_length(`{name}`), 0)" for name in frame.columns if name in _SIZED)
    light = f"{' + '.join(sizes)} <= {share_bytes}"
    kept = (
        f"CASE WHEN {light} THEN `{name}` END AS `{name}`" if name in _SIZED else f"`{name}`"
        for name in frame.columns
    )
    return frame.selectExpr(*kept, f"NOT ({light}) AS {_FLAG}")


def unflagged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a light form as the frame has them, or raise HeavyRows."""
    for batch in batches:
        if pc.any(batch.column(_FLAG)).as_py():
            raise HeavyRows
        yield batch.drop_columns([_FLAG])


def begins_at_once(frame: "DataFrame") -> bool:
    """Whether a job's first rows come without a shuffle, so that to begin again costs little."""
    if over_connect(frame.sparkSession):
        return False
    return "Exchange" not in frame._jdf.queryExecution().executedPlan().toString()  # noqa: SLF001
