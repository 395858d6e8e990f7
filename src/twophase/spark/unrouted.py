"""A batch without a transaction: every task encodes its rows and sends them in one pass.

Nothing is routed and nothing is materialised. A partition may have many senders, because each has
a producer id or an epoch of its own. A task that Spark runs again sends its rows again. The plan is
executed once, by one action: state stores advance as they do in any sink.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from twophase.errors import AccessDenied, BlockRefused, ProtocolViolation, StoreUnavailable
from twophase.guarantee import Guarantee
from twophase.kafka.counts import PartitionCounts, ask_partition_counts
from twophase.kafka.dead_letters import DeadLetters, stricter
from twophase.kafka.identity import Producer
from twophase.kafka.options import KafkaOptions, acks_for
from twophase.kafka.outlets import Delivery, LossyOutlet, Outlet, SureOutlet
from twophase.kafka.plan import plan_for
from twophase.kafka.records import encode_stream
from twophase.kafka.wire import Wire
from twophase.spark.jobs import asked
from twophase.spark.workers import connection, task_context

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("twophase")

_SCHEMA = "topic string, partition int, rows long, bytes long, failed_rows long, error string"
_ARROW_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("failed_rows", pa.int64()),
        ("error", pa.string()),
    ]
)
_ERROR_CHARS_MAX = 500
_NOWHERE = ("", -1)


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch without a transaction has written, and under `none` what it has not."""

    partitions: tuple[Delivery, ...]
    error: str | None = None
    dead_letter_topic: str | None = None
    strict: bool = False

    @property
    def rows(self) -> int:
        """Rows that were acknowledged, dead letters left out."""
        return sum(part.rows for part in self.partitions if part.topic != self.dead_letter_topic)

    @property
    def bytes(self) -> int:
        """Bytes that were acknowledged, dead letters left out."""
        return sum(part.bytes for part in self.partitions if part.topic != self.dead_letter_topic)

    @property
    def rejected_rows(self) -> int:
        """Rows that are dead letters."""
        return sum(part.rows for part in self.partitions if part.topic == self.dead_letter_topic)

    @property
    def failed_rows(self) -> int:
        """Rows that were given up; always 0 under at-least-once, which raises instead."""
        return sum(part.failed_rows for part in self.partitions)


def write_unrouted(
    frame: "DataFrame",
    wire: Wire,
    topic: str | None,
    guarantee: Guarantee,
    dead: DeadLetters | None = None,
) -> Written:
    """Execute the plan once and send its rows from its own tasks.

    Under at-least-once every row is acknowledged by all replicas when this returns; otherwise it
    raises. Under none it returns what was written, and raises only for a mistake in the query.

    Where rows may become dead letters and a broker refuses some under at-least-once, the plan is
    executed once more: what the tasks had sent by then is there twice.
    """
    acks_for(guarantee, wire.options)
    # Asked for anew for each batch: a topic may gain partitions.
    topics = [] if topic is None else [topic]
    letters = [] if dead is None else [dead.topic]
    counts = dict(ask_partition_counts(wire, topics + letters))
    task = UnroutedTask(wire.options, topic, counts, guarantee, int(time.time() * 1000), dead)
    while True:
        try:
            written = _written(frame, task)
            break
        except BlockRefused as refused:
            # Raises it, at the second time at the latest.
            dead = stricter(task.dead, refused)
            # The age of rows is that of now, not that of the first try.
            task = replace(task, dead=dead, now_ms=int(time.time() * 1000))
    if written.failed_rows:
        _log.warning(
            "%d of %d rows were not written (guarantee none); the first reason: %s",
            *(written.failed_rows, written.failed_rows + written.rows, written.error),
        )
    return written


def _written(frame: "DataFrame", task: "UnroutedTask") -> Written:
    found = _added_up(asked(lambda: frame.mapInArrow(task, _SCHEMA).toArrow()))
    if task.dead is None:
        return found
    return replace(found, dead_letter_topic=task.dead.topic, strict=task.dead.strict)


@dataclass(frozen=True)
class UnroutedTask:
    """Rows of one task to Kafka, encoded and sent in one pass."""

    options: KafkaOptions
    topic: str | None
    counts: Mapping[str, int]
    guarantee: Guarantee
    now_ms: int
    dead: DeadLetters | None = None

    def __post_init__(self) -> None:
        if self.guarantee is Guarantee.EXACTLY_ONCE:
            raise ProtocolViolation(f"{self.guarantee} needs routed partitions and a transaction")

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send all, and yield one row for each partition that was written to."""
        rows, outlet = _Counted(batches), self._outlet()
        try:
            encoded = self._send(rows, outlet)
            found = outlet.finish()
        finally:
            outlet.close()
        if rows.seen > encoded:
            found.append(Delivery(*_NOWHERE, 0, 0, rows.seen - encoded))
        if outlet.error:
            failed = sum(part.failed_rows for part in found)
            _log.warning("%d rows of a task were not written: %s", failed, outlet.error)
        yield _report(found, outlet.error)

    def _send(self, rows: "_Counted", outlet: Outlet) -> int:
        """Encode and send, and return how many rows became blocks: all, unless one had no place."""
        counts = self.counts
        if self.topic is None:
            optional = self.dead is not None
            counts = PartitionCounts(self._wire, optional=optional, known=self.counts)
        plan = plan_for(self.options, self.topic, counts, dead=self.dead, connect=self._wire)
        # Attempts are numbered through the whole application: so small batches without keys do not
        # all begin with the same partition.
        begin = task_context().taskAttemptId()
        encoded = 0
        try:
            for block in encode_stream(rows, plan, now_ms=self.now_ms, spread_from=begin):
                encoded += block.count
                outlet.send(block)
        except (AccessDenied, StoreUnavailable) as failure:
            # The sender's own failures stay in a lossy outlet: this one is a topic's look-up.
            outlet.note(failure)
            rows.exhaust()
        return encoded

    def _outlet(self) -> Outlet:
        if self.guarantee is Guarantee.NONE:
            return LossyOutlet(self._wire, acks_for(self.guarantee, self.options))
        return SureOutlet(self._wire, self._producer)

    def _producer(self) -> Producer:
        return connection(self.options).producer_ids.following()

    def _wire(self) -> Wire:
        return connection(self.options).wire


class _Counted:
    """The rows of a task on their way to the encoder, counted as they pass."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self.seen = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.seen += batch.num_rows
            yield batch

    def exhaust(self) -> None:
        """Take what is left: the plan must be executed to its end, whatever Kafka does."""
        for _ in self:
            pass


def _report(found: Iterable[Delivery], error: str | None) -> pa.RecordBatch:
    """Return one row per partition; the reason stands in the first one only."""
    rows: list[dict[str, Any]] = [asdict(part) for part in found]
    if rows and error:
        rows[0]["error"] = error[:_ERROR_CHARS_MAX]
    return pa.RecordBatch.from_pylist(rows, schema=_ARROW_SCHEMA)


def _added_up(reports: pa.Table) -> Written:
    """Add up the tasks' reports; they take some 60 bytes per task and partition."""
    sums = [(name, "sum") for name in ("rows", "bytes", "failed_rows")]
    table = reports.group_by(["topic", "partition"]).aggregate(sums)
    table = table.rename_columns([name.removesuffix("_sum") for name in table.column_names])
    reasons = pc.drop_null(reports.column("error"))
    return Written(
        tuple(sorted(Delivery(**row) for row in table.to_pylist())),
        reasons[0].as_py() if len(reasons) else None,
    )
