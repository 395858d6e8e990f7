"""Rows that go to the Python workers without being weighed one by one.

Spark bounds an Arrow batch by its rows and by its bytes, and for the bytes it asks every column for
its size after every row: for rows of a hundred bytes that costs more than to write them. Where no
row is heavier than a batch's bytes divided by its rows, the bound by rows holds both. So the light
form of a frame has no such row: it comes empty and flagged. Then the rows are not light, and the
batch is encoded again, weighed.

A wrong guess costs what was computed until the first heavy row. Where a job's plan has to shuffle
before, that may be nearly all of it, and so nothing is guessed there. Nor is it where Python
functions of the user are part of the job, whose batches would be without a bound, or what the user
observes of it, which would be counted in part.
"""

import re
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from twophase.spark.connect import over_connect
from twophase.spark.driver_jvm import calling_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_USERS_OWN: Final = re.compile(r"Python|InPandas|InArrow|InPySpark|CollectMetrics")
_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES: Final = 64_000_000
_SHARE_MIN_BYTES: Final = 1_000
# More than a value of fixed size takes, its validity included.
_FIXED_BYTES: Final = 32
_SIZED: Final = re.compile(r"string|binary|char|varchar")
_NESTED: Final = re.compile(r"array|map|struct|variant")
_FLAG: Final = "twophase_heavy"
# About what a new worker takes for itself and the modules that it loads.
_NEW_WORKER_S: Final = 1.0


class HeavyRows(Exception):
    """There is a row that is not light."""


def light_rows(frame: "DataFrame") -> "DataFrame | None":
    """Return the light form of the frame; None where there is none or it would be no gain.

    Columns of columns would have to be weighed by an expression slower than what it saves.
    """
    session = frame.sparkSession
    if over_connect(session):
        return None
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    if any(_NESTED.match(kind) for kind in kinds.values()) or len(kinds) < len(frame.columns):
        return None
    if any(name.lower() == _FLAG for name in kinds):
        return None
    rows = int(session.conf.get(_SETTING) or 0)
    share_bytes = _BATCH_BYTES // rows - _FIXED_BYTES * len(kinds) if rows > 0 else 0
    if share_bytes < _SHARE_MIN_BYTES:
        return None
    quoted = {name: "`" + name.replace("`", "``") + "`" for name in kinds}
    sized = [name for name, kind in kinds.items() if _SIZED.match(kind)]
    sizes = (f"coalesce(octet_length({quoted[name]}), 0)" for name in sized)
    light = f"{' + '.join(sizes) or '0'} <= {share_bytes}"
    kept = (
        f"CASE WHEN {light} THEN {column} END AS {column}" if name in sized else column
        for name, column in quoted.items()
    )
    return frame.selectExpr(*kept, f"NOT ({light}) AS {_FLAG}")


def unflagged(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a light form as the frame has them, or raise HeavyRows."""
    rest = iter(batches)
    for batch in rest:
        if pc.any(batch.column(_FLAG)).as_py():
            _read_on(rest)
            raise HeavyRows
        yield batch.drop_columns([_FLAG])


def _read_on(rest: Iterator[pa.RecordBatch]) -> None:
    """Read what is left, if that is soon done: Spark ends a worker that leaves rows unread."""
    until_s = time.monotonic() + _NEW_WORKER_S
    while time.monotonic() < until_s and next(rest, None) is not None:
        pass


def job_may_guess(frame: "DataFrame") -> bool:
    """Whether to begin a job again costs little, and nothing of the user's is harmed by it."""
    if over_connect(frame.sparkSession):
        return False
    plan = plan_of(frame._jdf.queryExecution())  # noqa: SLF001
    return "Exchange" not in plan and not has_users_own(plan)


def stream_may_guess(frame: "DataFrame") -> bool:
    """Whether nothing of the user's is in this batch, neither in the query nor behind it."""
    session = frame.sparkSession
    if over_connect(session):
        return False
    running = calling_query(session)
    if running is None:
        return False
    # The frame's own plan begins with the batch's rows; how they come about, only the query knows.
    plans = (running.query.lastExecution(), frame._jdf.queryExecution())  # noqa: SLF001
    return not any(has_users_own(plan_of(plan)) for plan in plans)


def plan_of(execution: Any) -> str:
    """Return the physical plan of a query execution as a text."""
    return str(execution.executedPlan().toString())


def has_users_own(plan: str) -> bool:
    """Whether Python functions or observations are part of the plan."""
    return _USERS_OWN.search(plan) is not None
