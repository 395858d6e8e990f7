"""`TaskSink`: a `TwoPhaseCommitSink` as a function for foreachBatch, or for a batch job."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from twophase.attempt import run_attempt
from twophase.commit.attempts import Attempt, prefix_of
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.commit.refusals import RUN_OWNER
from twophase.errors import ConfigurationError
from twophase.log.decision import Prepared
from twophase.log.decisions import DecisionLog
from twophase.observe import BatchRecord, Hook, notify, task_record
from twophase.spark.connect import checked_owner, over_connect
from twophase.spark.jobs import asked, check_is_job, execute
from twophase.spark.log_folder import HadoopFolder
from twophase.spark.stream import SinkObject, stream_batch, wall_ms
from twophase.spark.workers import task_context
from twophase.spark.written import Written, check_not_written, note_written, one_call
from twophase.task_scope import Ended, OnLost, TaskScope
from twophase.two_phase import TwoPhaseCommitSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PREPARED = "task int, name string, rows long, committable string"


class TaskSink:
    """Every row of a streaming query, or of a batch job, in the user's own store exactly once.

    `sink_id` names the sink for ever; two queries must not share one. The decision log lies in the
    query's checkpoint, or under `decisions`, a folder that every driver of the sink reaches; a
    batch job has no checkpoint and must be given one. `on_lost` says what to do where the store
    has dropped rows that were decided on: "fail", or "record" what is missing and go on.
    """

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
        self._name = SinkName(sink_id)
        self._decisions = decisions.rstrip("/") if decisions is not None else None
        self._on_lost = OnLost.parse(on_lost)
        self._hooks = tuple(hooks)
        self._made = SinkObject(checkpoint, checked_owner(owner), uuid4().hex, wall_ms())
        self._scope: tuple[str, TaskScope] | None = None
        self._checked: Any = None

    def __repr__(self) -> str:
        return f"<TaskSink {self._name.sink_id} to {type(self._sink).__name__}>"

    @property
    def sink_id(self) -> str:
        """The sink's name, for ever."""
        return self._name.sink_id

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Write one micro-batch; Spark calls this."""
        self._check(frame)
        call = stream_batch(frame, batch_id, self._made)
        place = (call.root, self._name.transactional_id)
        now = Written(call.run_id, batch_id, self._made.object_id)
        with one_call(place):
            check_not_written(place, now)
            root = f"{self._decisions or call.root + '/twophase'}/{self._name.sink_id}"
            if self._scope is None or self._scope[0] != root:
                self._scope = (root, self._scope_in(frame, root, self._name))
            self._write(self._scope[1], call.run_id, call.batch, self._name, frame)
            note_written(place, now)

    def write(self, frame: "DataFrame", *, run_id: str) -> BatchRecord:
        """Write a batch job's DataFrame, once for each `run_id`, as long as its log is there."""
        check_is_job(frame)
        if self._decisions is None:
            raise ConfigurationError(
                "a batch job has no checkpoint for the decision log; give the sink decisions=..., "
                "a folder that stays and that every run of the job reaches"
            )
        self._check(frame)
        name = SinkName(self._name.sink_id, run_id)
        root = f"{self._decisions}/{name.sink_id}/{run_id}"
        batch = Batch(RUN_OWNER, 0, "", first_try=False)
        return self._write(self._scope_in(frame, root, name), uuid4().hex, batch, name, frame)

    def _check(self, frame: "DataFrame") -> None:
        if over_connect(frame.sparkSession):
            raise ConfigurationError(
                "task scope keeps its decision log by the driver's JVM, which a Spark Connect "
                "client does not have; run the query in classic mode"
            )
        if self._checked != frame.schema:
            # The columns as Spark hands them to the tasks; a frame without rows runs no plan.
            empty = frame.sparkSession.createDataFrame([], frame.schema)
            self._sink.check(empty.toArrow().schema)
            self._checked = frame.schema

    def _scope_in(self, frame: "DataFrame", root: str, name: SinkName) -> TaskScope:
        log = DecisionLog(HadoopFolder(frame.sparkSession, root))
        return TaskScope(self._sink, log, prefix_of(name), on_lost=self._on_lost)

    def _write(
        self, scope: TaskScope, call_id: str, batch: Batch, name: SinkName, frame: "DataFrame"
    ) -> BatchRecord:
        began_s = time.monotonic()
        ended: Ended | None = None
        raised: BaseException | None = None
        try:
            ended = scope.write(call_id, batch, _SparkTasks(self._sink, frame, batch))
        except BaseException as error:
            raised = error
            raise
        finally:
            total_s = time.monotonic() - began_s
            record = task_record(name, batch, ended=ended, total_s=total_s, error=raised)
            notify(self._hooks, record)
        return record


@dataclass(frozen=True)
class _SparkTasks:
    """The tasks of one batch's last stage."""

    sink: TwoPhaseCommitSink[Any]
    frame: "DataFrame"
    batch: Batch

    def run(self, prefix: str, epoch: int) -> list[Prepared]:
        """Run all; Spark hands back the result of one attempt for each task, the winner's."""
        task = WriteTask(self.sink, prefix, epoch, self.batch.number)
        rows = asked(self.frame.mapInArrow(task, _PREPARED).collect)
        return [_prepared(row.asDict()) for row in rows]

    def execute(self) -> None:
        """Execute the plan and write nothing: state stores advance only by that."""
        # A batch job has no state: a run that is skipped computes nothing.
        if self.batch.owner != RUN_OWNER:
            execute(self.frame)


@dataclass(frozen=True)
class WriteTask:
    """The rows of one task into one transaction of the user's store."""

    sink: TwoPhaseCommitSink[Any]
    prefix: str
    epoch: int
    batch: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write, prepare, and yield the committable; nothing where there are no rows."""
        context = task_context()
        attempt = Attempt(
            self.prefix, self.epoch, self.batch, context.partitionId(), context.taskAttemptId()
        )
        prepared = run_attempt(self.sink, attempt, batches)
        if prepared is not None:
            yield pa.RecordBatch.from_pydict(
                {
                    "task": pa.array([prepared.task], pa.int32()),
                    "name": [prepared.name],
                    "rows": pa.array([prepared.rows], pa.int64()),
                    "committable": [json.dumps(prepared.committable)],
                }
            )


def _prepared(row: Mapping[str, Any]) -> Prepared:
    return Prepared(row["task"], row["name"], row["rows"], json.loads(row["committable"]))
