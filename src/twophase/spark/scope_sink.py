"""What sinks with a scope of their own share: turns, records, and a batch job beside a query."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4

import pyarrow as pa

from twophase.call_watch import CallWatch
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.commit.refusals import RUN_OWNER
from twophase.commit.turns import Ended
from twophase.observe import BatchRecord, Hook, announce, notify, scope_record
from twophase.spark.connect import checked_owner
from twophase.spark.jobs import check_is_job, execute
from twophase.spark.light import job_may_guess, stream_may_guess
from twophase.spark.row_tasks import RowRunner
from twophase.spark.stream import SinkObject, stream_batch, wall_ms
from twophase.spark.written import Calls, Written, check_not_written, note_written, one_call

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LARGE_TYPES: Final = "spark.sql.execution.arrow.useLargeVarTypes"


class Scope(Protocol):
    """One sink in one driver process."""

    def write(self, run_id: str, batch: Batch, tasks: Any, watch: CallWatch) -> Ended:
        """Bring one batch into the store exactly once, or raise why a person has to look."""


class ScopeSink(ABC):
    """A function for foreachBatch, and `write` for batch jobs, over a scope."""

    # How a record calls the way that the rows went.
    _path: str

    def __init__(
        self, *, sink_id: str, checkpoint: str | None, owner: str | None, hooks: Iterable[Hook]
    ) -> None:
        self._name = SinkName(sink_id)
        self._checkpoint = checkpoint
        self._owner = checked_owner(owner)
        self._hooks = tuple(hooks)
        self._begin()

    def _begin(self) -> None:
        """Set what belongs to this object in this process and goes nowhere else."""
        # Over Spark Connect each run of the query unpickles a sink of its own.
        self._made = SinkObject(self._checkpoint, self._owner, uuid4().hex, wall_ms())
        self._scope: tuple[str, Scope] | None = None
        self._checked: tuple[Any, pa.Schema] | None = None
        self._rows = RowRunner(stream_may_guess)
        self._calls = Calls(self.sink_id)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings only: a sink that is sent to a Spark Connect server begins there."""
        here = {"_made", "_scope", "_checked", "_rows", "_calls"}
        return {name: value for name, value in vars(self).items() if name not in here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    @property
    def sink_id(self) -> str:
        """The sink's name, for ever."""
        return self._name.sink_id

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Write one micro-batch; Spark calls this."""
        with self._calls.call(batch_id):
            self._write_batch(frame, batch_id)

    def _write_batch(self, frame: "DataFrame", batch_id: int) -> None:
        schema = self._checked_schema(frame)
        call = stream_batch(frame, batch_id, self._made)
        root = self._root(call.root)
        place = (root, self._name.transactional_id)
        now = Written(call.run_id, batch_id, self._made.object_id)
        with one_call(place):
            check_not_written(place, now)
            if self._scope is None or self._scope[0] != root:
                self._scope = (root, self._make_scope(frame, root, self._name))
            tasks = self._tasks(frame, schema, call.batch, self._rows)
            self._write(self._scope[1], call.run_id, call.batch, self._name, tasks)
            note_written(place, now)

    def write(self, frame: "DataFrame", *, run_id: str) -> BatchRecord:
        """Write a batch job's DataFrame, once for each `run_id`, as long as the store knows it."""
        check_is_job(frame)
        name = SinkName(self._name.sink_id, run_id)
        root = self._root(None)
        schema = self._checked_schema(frame)
        batch = Batch(RUN_OWNER, 0, "", first_try=False)
        scope = self._make_scope(frame, root, name)
        tasks = self._tasks(frame, schema, batch, RowRunner(job_may_guess))
        return self._write(scope, uuid4().hex, batch, name, tasks)

    @abstractmethod
    def _root(self, checkpoint: str | None) -> str:
        """Return where the sink keeps what it knows; a batch job has no checkpoint."""

    @abstractmethod
    def _make_scope(self, frame: "DataFrame", root: str, name: SinkName) -> Scope:
        """Return the scope of the sink, or of one run of a batch job."""

    @abstractmethod
    def _tasks(self, frame: "DataFrame", schema: pa.Schema, batch: Batch, rows: RowRunner) -> Any:
        """Return the tasks of a batch, as the scope runs them."""

    @abstractmethod
    def _check(self, frame: "DataFrame", schema: pa.Schema) -> None:
        """Refuse rows that do not fit, before anything is done."""

    def _checked_schema(self, frame: "DataFrame") -> pa.Schema:
        """Return the columns as Spark hands them to the tasks."""
        if self._checked is None or self._checked[0] != frame.schema:
            schema = arrow_schema(frame)
            self._check(frame, schema)
            self._checked = (frame.schema, schema)
        return self._checked[1]

    def _write(
        self, scope: Scope, call_id: str, batch: Batch, name: SinkName, tasks: Any
    ) -> BatchRecord:
        watch = CallWatch()
        announce(self._hooks, name, batch.number, watch)
        ended: Ended | None = None
        raised: BaseException | None = None
        try:
            ended = scope.write(call_id, batch, tasks, watch)
        except BaseException as error:
            raised = error
            raise
        finally:
            watch.stop()
            record = scope_record(
                name, batch, path=self._path, ended=ended, watch=watch, error=raised
            )
            notify(self._hooks, record)
        return record


# For a batch job, which is one call of one sink, this took longer than to look at the table.
_SCHEMAS_MAX: Final = 100
_SCHEMAS: dict[tuple[str, str | None], pa.Schema] = {}


def arrow_schema(frame: "DataFrame") -> pa.Schema:
    """Return the columns as Spark gives them to Arrow, asked once for each list of columns."""
    session = frame.sparkSession
    asked = (frame.schema.json(), session.conf.get(_LARGE_TYPES, None))
    if asked not in _SCHEMAS:
        if len(_SCHEMAS) >= _SCHEMAS_MAX:
            _SCHEMAS.clear()
        # A frame without rows runs no plan.
        _SCHEMAS[asked] = session.createDataFrame([], frame.schema).toArrow().schema
    return _SCHEMAS[asked]


def execute_plan(frame: "DataFrame", batch: Batch) -> None:
    """Execute the plan of a batch that is skipped: state stores advance only by that."""
    # A batch job has no state: a run that is skipped computes nothing.
    if batch.owner != RUN_OWNER:
        execute(frame)
