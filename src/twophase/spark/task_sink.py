"""`TaskSink`: a `TwoPhaseCommitSink` as a function for foreachBatch, or for a batch job."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twophase.attempt import run_attempt
from twophase.commit.attempts import Turn, prefix_of
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.errors import ConfigurationError, ProtocolViolation, TwoPhaseError
from twophase.log.decision import Prepared
from twophase.log.decisions import DecisionLog
from twophase.observe import TASK, Hook
from twophase.spark.connect import over_connect
from twophase.spark.log_folder import folder_at
from twophase.spark.row_tasks import RowRunner
from twophase.spark.scope_sink import ScopeSink, execute_plan
from twophase.spark.workers import task_context
from twophase.task_scope import OnLost, TaskScope
from twophase.two_phase import TwoPhaseCommitSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RUNS_MAX = 3
_TELLS = pa.schema(
    [
        ("task", pa.int32()),
        ("name", pa.string()),
        ("rows", pa.int64()),
        ("committable", pa.string()),
        ("bytes", pa.int64()),
    ]
)


class TaskSink(ScopeSink):
    """Every row of a streaming query, or of a batch job, in the user's own store exactly once.

    `sink_id` names the sink for ever; two queries must not share one. The decision log lies in the
    query's checkpoint, or under `decisions`, a folder that every driver of the sink reaches; a
    batch job has no checkpoint and must be given one. `on_lost` says what to do where the store
    has dropped rows that were decided on: "fail", or "record" what is missing and go on.
    """

    _path = TASK

    def __init__(
        self,
        sink: TwoPhaseCommitSink[Any],
        *,
        sink_id: str,
        checkpoint: str | None = None,
        owner: str | None = None,
        decisions: str | None = None,
        on_lost: str = OnLost.FAIL,
        hooks: Iterable[Hook] = (),
    ) -> None:
        if not isinstance(sink, TwoPhaseCommitSink):
            raise ConfigurationError(
                f"sink is {type(sink).__name__}; allowed is an object of a class that extends "
                "twophase.TwoPhaseCommitSink"
            )
        self._sink = sink
        self._decisions = decisions.rstrip("/") if decisions is not None else None
        self._on_lost = OnLost.parse(on_lost)
        super().__init__(sink_id=sink_id, checkpoint=checkpoint, owner=owner, hooks=hooks)

    def __repr__(self) -> str:
        return f"<TaskSink {self._name.sink_id} to {type(self._sink).__name__}>"

    def _root(self, checkpoint: str | None) -> str:
        if self._decisions is not None:
            return f"{self._decisions}/{self._name.sink_id}"
        if checkpoint is None:
            raise ConfigurationError(
                "a batch job has no checkpoint for the decision log; give the sink decisions=..., "
                "a folder that stays and that every run of the job reaches"
            )
        return f"{checkpoint}/twophase/{self._name.sink_id}"

    def _make_scope(self, frame: "DataFrame", root: str, name: SinkName) -> TaskScope:
        place = root if name.run_id is None else f"{root}/{name.run_id}"
        log = DecisionLog(folder_at(frame.sparkSession, place))
        return TaskScope(self._sink, log, prefix_of(name), on_lost=self._on_lost)

    def _tasks(
        self,
        frame: "DataFrame",
        schema: pa.Schema,  # noqa: ARG002
        batch: Batch,
        rows: RowRunner,
    ) -> "_SparkTasks":
        return _SparkTasks(self._sink, frame, batch, rows)

    def _check(self, frame: "DataFrame", schema: pa.Schema) -> None:
        if over_connect(frame.sparkSession):
            raise ConfigurationError(
                "task scope keeps its decision log by the driver's JVM, which a Spark Connect "
                "client does not have; run the query in classic mode"
            )
        self._sink.check(schema)


@dataclass(frozen=True)
class _SparkTasks:
    """The tasks of one batch's last stage."""

    sink: TwoPhaseCommitSink[Any]
    frame: "DataFrame"
    batch: Batch
    rows: RowRunner

    def run(self, turn: Turn, anew: Callable[[], None]) -> list[Prepared]:
        """Run all; Spark hands back the result of one attempt for each task, the winner's."""
        for runs_left in reversed(range(_RUNS_MAX)):
            task = WriteTask(self.sink, turn)
            try:
                rows = self.rows.run(self.frame, task, _TELLS, between=anew)
                return [_prepared(row) for row in rows]
            except TwoPhaseError as error:
                if not self.sink.again(error) or not runs_left:
                    raise
                anew()
        raise ProtocolViolation("no run of the tasks was begun")

    def execute(self) -> None:
        """Execute the plan and write nothing: state stores advance only by that."""
        execute_plan(self.frame, self.batch)


@dataclass(frozen=True)
class WriteTask:
    """The rows of one task into one transaction of the user's store."""

    sink: TwoPhaseCommitSink[Any]
    turn: Turn

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, prepare, and yield the committable; nothing where there are no rows."""
        context = task_context()
        attempt = self.turn.attempt(context.partitionId(), context.taskAttemptId())
        prepared = run_attempt(self.sink, attempt, batches)
        if prepared is not None:
            told = asdict(prepared) | {"committable": json.dumps(prepared.committable)}
            yield pa.RecordBatch.from_pylist([told], _TELLS)


def _prepared(row: Mapping[str, Any]) -> Prepared:
    return Prepared(**{**row, "committable": json.loads(row["committable"])})
