"""`PostgresSink`: every row of a streaming query, or of a batch job, in a table exactly once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.observe import STAGED, Hook
from twophase.options import Secret
from twophase.postgres.batch_scope import BatchScope, Staged
from twophase.postgres.columns import schema_of
from twophase.postgres.connection import connected, place_of
from twophase.postgres.staging import Stage
from twophase.postgres.target import Target
from twophase.spark.row_tasks import RowRunner
from twophase.spark.scope_sink import ScopeSink, execute_plan
from twophase.spark.workers import task_context

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TELLS = pa.schema(
    [("task", pa.int32()), ("attempt", pa.int64()), ("rows", pa.int64()), ("bytes", pa.int64())]
)


class PostgresSink(ScopeSink):
    """Writes to `table` ("name" or "schema.name") of the database at `url`, in one transaction.

    `sink_id` names the sink for ever; two queries must not share one. Columns go by name; those
    that the DataFrame lacks get their defaults. Rows are appended, or, where `key` names columns,
    put in the place of the row with the same key, which a unique index of the table must find.

    In the table's schema are made: `twophase_sinks`, with a row for each sink, and for each batch a
    staging table `twophase_stage_...`, which is dropped after it. Over Spark Connect give `owner`
    and `checkpoint`.
    """

    _path = STAGED

    def __init__(
        self,
        url: str,
        table: str,
        *,
        sink_id: str,
        key: str | Sequence[str] = (),
        checkpoint: str | None = None,
        owner: str | None = None,
        hooks: Iterable[Hook] = (),
    ) -> None:
        self._url = Secret(url)
        place_of(self._url)
        self._target = Target(table, key)
        super().__init__(sink_id=sink_id, checkpoint=checkpoint, owner=owner, hooks=hooks)

    def __repr__(self) -> str:
        return f"<PostgresSink {self._name.sink_id} to {self._target.named}>"

    def _root(self, checkpoint: str | None) -> str:  # noqa: ARG002 - the database knows all
        return place_of(self._url)

    def _make_scope(self, frame: "DataFrame", root: str, name: SinkName) -> BatchScope:  # noqa: ARG002
        with connected(self._url) as connection:
            schema = schema_of(connection, self._target.table)
        return BatchScope(self._url, self._target, schema, name.transactional_id)

    def _tasks(
        self, frame: "DataFrame", schema: pa.Schema, batch: Batch, rows: RowRunner
    ) -> "_SparkTasks":
        return _SparkTasks(frame, schema, batch, rows)

    def _check(self, frame: "DataFrame", schema: pa.Schema) -> None:  # noqa: ARG002
        with connected(self._url) as connection:
            self._target.check(connection, schema)


@dataclass(frozen=True)
class _SparkTasks:
    """The tasks of one batch's last stage."""

    frame: "DataFrame"
    schema: pa.Schema
    batch: Batch
    rows: RowRunner

    def run(self, stage: Stage) -> list[Staged]:
        """Run all; Spark hands back the result of one attempt for each task, the winner's."""
        return [Staged(**row) for row in self.rows.run(self.frame, StageTask(stage), _TELLS)]

    def execute(self) -> None:
        """Execute the plan and write nothing."""
        execute_plan(self.frame, self.batch)


@dataclass(frozen=True)
class StageTask:
    """The rows of one task into the staging table."""

    stage: Stage

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Copy, and yield what was copied; nothing where there are no rows."""
        context = task_context()
        attempt = context.taskAttemptId()
        size = 0

        def weighed() -> Iterator[pa.RecordBatch]:
            nonlocal size
            for batch in batches:
                size += batch.nbytes
                yield batch

        rows = self.stage.fill(attempt, weighed())
        if rows:
            task = context.partitionId()
            told = {"task": task, "attempt": attempt, "rows": rows, "bytes": size}
            yield pa.RecordBatch.from_pylist([told], _TELLS)
