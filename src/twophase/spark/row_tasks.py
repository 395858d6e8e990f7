"""One job that hands a frame's rows to tasks and brings back a row from each of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from twophase.errors import StoreUnavailable
from twophase.sink import BlocksGone
from twophase.spark.arrow_bound import UNWEIGHED, arrow_bound
from twophase.spark.jobs import asked
from twophase.spark.light import HeavyRows, light_rows, unflagged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RowTask = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
# A batch of rows for a Python worker, where they are weighed.
_ROWS_BYTES: Final = 16_000_000


class RowRunner:
    """Runs such jobs, with light rows where `may_guess` allows it, until one was not light."""

    def __init__(self, may_guess: Callable[["DataFrame"], bool]) -> None:
        self._may_guess = may_guess
        self._heavy = False

    def run(
        self,
        frame: "DataFrame",
        task: RowTask,
        tells: pa.Schema,
        *,
        between: Callable[[], None] = lambda: None,
    ) -> list[dict[str, Any]]:
        """Return what the tasks that won have told; the first column of it is never null.

        `between` ends what the tasks have left in the store, before they run again, weighed.
        """
        if not self._heavy and self._may_guess(frame):
            form = light_rows(frame)
            if form is not None:
                rows = _collected(form, _Light(task, tells), tells, UNWEIGHED)
                self._heavy = any(row[tells.names[0]] is None for row in rows)
                if not self._heavy:
                    return rows
                between()
        return _collected(frame, task, tells, _ROWS_BYTES)


def _collected(
    frame: "DataFrame", task: RowTask, tells: pa.Schema, most_bytes: int
) -> list[dict[str, Any]]:
    columns = ", ".join(f"{field.name} {_SQL[field.type]}" for field in tells)
    try:
        with arrow_bound(frame.sparkSession, most_bytes):
            rows = asked(frame.mapInArrow(task, columns).collect)
    except BlocksGone as error:
        raise StoreUnavailable(
            "Spark has lost rows that the query had checkpointed or shuffled and cannot compute "
            "them again as they were; nothing is written; start again"
        ) from error
    return [row.asDict() for row in rows]


_SQL: Final = {pa.int32(): "int", pa.int64(): "long", pa.string(): "string"}


@dataclass(frozen=True)
class _Light:
    """A task over the light form of its rows; a heavy one ends it with a row of nulls."""

    task: RowTask
    tells: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.task(unflagged(batches))
        except HeavyRows:
            yield pa.RecordBatch.from_pylist([dict.fromkeys(self.tells.names)], self.tells)
