"""The bound of the driver path, planned once for a run of a query and not for every batch.

What foreachBatch is handed is planned already: an RDD of rows, behind one leaf of a new plan. To
analyse, optimise and plan the bound's two expressions over that leaf takes Spark as long as the job
itself. So the bound is planned once, over a leaf without rows, and each batch only puts its own RDD
into a copy of that plan. The job belongs to the query's own execution, as those of Spark's sinks
do, and Spark's UI shows no execution of ours beside it.

The nodes of a plan are private to Spark. Whatever they are not, or do not, as they are expected to,
shows before a job is started, and then the batch is planned in the ordinary way. So it is where a
frame is more than that leaf: what users add in foreachBatch, cache or observe there is Spark's to
plan, to show and to report.

The copy leaves out the stage of generated code that Spark would make of its nodes: to write that
code anew for each batch takes longer than the few rows gain by it.
"""

import logging
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.serializers import NoOpSerializer
from pyspark.util import _load_from_socket

from twophase.spark.bound import bounded, share_of
from twophase.spark.connect import over_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("twophase")

_ROWS: Final = "LogicalRDD"
# Far above what a batch of some hundred rows is.
_BY_CALL_BYTES: Final = 100_000
_STAGE: Final = ("WholeStageCodegenExec", "InputAdapter")
_KINDS: Final = ("ProjectExec", "FilterExec", "RDDScanExec")


class PlannedBounds:
    """The bounds that one sink has planned in the present run of its query."""

    def __init__(self) -> None:
        self._run_id = ""
        self._planned: dict[tuple[str, int], _Planned] = {}
        self._failed = False

    def begin(self, run_id: str, frame: "DataFrame") -> "PlannedBounds | None":
        """Begin a batch: what another run has planned is forgotten, since its session was another.

        None over Spark Connect, whose clients have no JVM to build a plan in.
        """
        if over_connect(frame.sparkSession):
            return None
        if run_id != self._run_id:
            self._run_id, self._planned, self._failed = run_id, {}, False
        return self

    def collect(self, frame: "DataFrame") -> pa.Table | None:
        """Return the rows of the bounded frame; None where it must be planned as it is."""
        if self._failed:
            return None
        try:
            found = self._job(frame)
        except Exception as error:  # noqa: BLE001 - private names of Spark, and no job yet
            self._failed = True
            _log.warning("small batches of this run are planned one by one: %s", error)
            return None
        return None if found is None else found.collect()

    def _job(self, frame: "DataFrame") -> "_Job | None":
        # The plan as users' caches have left it: what they keep is not computed again.
        leaf = frame._jdf.queryExecution().withCachedData()  # noqa: SLF001
        if leaf.nodeName() != _ROWS:
            return None
        rdd = leaf.rdd()
        share_bytes = share_of(rdd.getNumPartitions())
        key = (frame.schema.json(), share_bytes)
        planned = self._planned.get(key)
        if planned is None or planned.outdated:
            planned = self._planned[key] = _Planned(frame, share_bytes)
        return planned.over(rdd)


@dataclass(frozen=True, slots=True)
class _Job:
    """An RDD of Arrow batches that nobody has computed yet."""

    rdd: Any
    schema: pa.Schema
    names: "_Names"

    def collect(self) -> pa.Table:
        """Compute it; the batches of a task follow those of the task before."""
        arrays = self.rdd.collect()
        # A call's value is a text, which is slow from some kilobytes on; a socket takes its time
        # for a thread and a greeting first.
        small = self.names.size_of(arrays) <= _BY_CALL_BYTES
        return self._table(self.names.joined(arrays) if small else self._served(arrays))

    def rehearse(self) -> None:
        """Take every step of `collect`; where one cannot be taken, it shows here."""
        arrays = self.rdd.collect()
        self.names.size_of(arrays)
        self._table(self.names.joined(arrays) + self._served(arrays))

    def _table(self, found: bytes) -> pa.Table:
        """Return the rows of Arrow batches that lie one behind the other."""
        batches = []
        with pa.BufferReader(found) as reader:
            while reader.tell() < len(found):
                message = pa.ipc.read_message(reader)
                batches.append(pa.ipc.read_record_batch(message, self.schema))
        return pa.Table.from_batches(batches, self.schema)

    def _served(self, arrays: Any) -> bytes:
        items = self.names.sequence_of(arrays).iterator()
        served: Any = _load_from_socket(self.names.serve(items, _ROWS), NoOpSerializer())
        # A context since Spark 4.2, an iterator before.
        with served if hasattr(served, "__enter__") else nullcontext(served) as stream:
            return b"".join(stream)


class _Planned:
    """One bound's plan, over rows of one schema."""

    def __init__(self, frame: "DataFrame", share_bytes: int) -> None:
        session = frame.sparkSession
        self._names = _names(session._jvm)  # noqa: SLF001
        nothing = session.createDataFrame(session.sparkContext.emptyRDD(), frame.schema)
        self._frame = bounded(nothing, share_bytes)
        self._settings = session._jsparkSession.sessionState().conf()  # noqa: SLF001
        self._large = self._settings.arrowUseLargeVarTypes()
        self.schema = self._frame.toArrow().schema
        plan = self._frame._jdf.queryExecution().executedPlan()  # noqa: SLF001
        project = _inner(plan)
        filtered = _inner(project.child())
        leaf = _inner(filtered.child())
        kinds = tuple(map(_kind, (project, filtered, leaf)))
        if kinds != _KINDS:
            raise TypeError(f"the bound's plan is {', '.join(kinds)}")
        self._columns, self._condition = project.projectList(), filtered.condition()
        self._output = leaf.output()
        self._rest = leaf.name(), leaf.outputPartitioning(), leaf.outputOrdering(), leaf.stream()
        self.over(leaf.rdd()).rehearse()

    @property
    def outdated(self) -> bool:
        """Whether the session's settings give Arrow's texts other offsets now."""
        return bool(self._settings.arrowUseLargeVarTypes() != self._large)

    def over(self, rdd: Any) -> _Job:
        """Return the job that computes the bounded rows of `rdd`."""
        names = self._names
        leaf = names.scan(self._output, rdd, *self._rest)
        plan = names.project(self._columns, names.filter(self._condition, leaf))
        batches = self._frame._jdf.toArrowBatchRdd(plan)  # noqa: SLF001
        return _Job(batches, self.schema, names)


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _inner(node: Any) -> Any:
    """Return the node in the stage of generated code that begins or ends here, if any does."""
    while _kind(node) in _STAGE:
        node = node.child()
    return node


@dataclass(frozen=True, slots=True)
class _Names:
    """What is private to Spark, by its names, looked up once in a JVM."""

    scan: Any
    filter: Any
    project: Any
    size_of: Any
    joined: Any
    sequence_of: Any
    serve: Any


@lru_cache(maxsize=1)
def _names(jvm: Any) -> _Names:
    spark = jvm.org.apache.spark
    nodes, python = spark.sql.execution, spark.api.python
    return _Names(
        scan=nodes.RDDScanExec,
        filter=nodes.FilterExec,
        project=nodes.ProjectExec,
        size_of=spark.util.SizeEstimator.estimate,
        joined=spark.unsafe.types.ByteArray.concat,
        sequence_of=jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray,
        serve=python.PythonRDD.serveIterator,
    )
