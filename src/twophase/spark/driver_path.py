"""A small batch through the driver: its rows come as Arrow, and are encoded and sent here.

The whole plan is executed, because state stores advance only by that; a `limit` would execute a
part of it. What a task hands back is bounded all the same, by expressions that the executors
evaluate: rows beyond the bound come back empty and flagged, or not at all. Then the batch is not
small, and takes the routed path. So the guess that it is small may be wrong at any size.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from twophase.commit.summary import Summary
from twophase.kafka.counts import NO_LOOK, look_at
from twophase.kafka.identity import Identity, TopicPartition
from twophase.kafka.plan import plan_for
from twophase.kafka.records import encode
from twophase.kafka.sender import Sender
from twophase.kafka.summaries import confirmed, summarise
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire
from twophase.sink import BlocksGone
from twophase.spark.columns import byte_sizes
from twophase.spark.connect import over_connect
from twophase.spark.jobs import asked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twophase.kafka.blocks import Block

# What all tasks together may hand back, and what a row costs beside its own bytes.
_BUDGET_BYTES: Final = 64_000_000
_ROW_BYTES: Final = 64
_SHARES_MIN: Final = 8
_POSITION_BITS: Final = 33
_TOO_MUCH: Final = "spark.driver.maxResultSize"
_ROW: Final = "twophase_row"


class DriverPath:
    """The blocks of one batch, in the driver's memory.

    `look` is what `prepare` saw of their topics.
    """

    def __init__(
        self, frame: "DataFrame", wire: Wire, topic: str | None, *, spread_from: int = 0
    ) -> None:
        self._frame = frame
        self._wire = wire
        self._topic = topic
        self._spread_from = spread_from
        self._blocks: list[Block] | None = None
        self.look = NO_LOOK

    def prepare(self) -> Summary | None:
        """Compute the blocks; None where the batch is not small, and nothing is kept of it."""
        self.free()
        beside = ThreadPoolExecutor(1)
        try:
            # The topic is looked at while Spark works.
            names = [self._topic] if self._topic is not None else []
            looked = beside.submit(look_at, self._wire, names)
            rows = self._rows()
            self.look = looked.result()
        finally:
            # Whoever fails need not wait for an answer that nobody reads.
            beside.shutdown(wait=False, cancel_futures=True)
        if rows is None:
            return None
        if self._topic is None:
            self.look = look_at(self._wire, _topics(rows))
        plan = plan_for(self._wire.options, self._topic, self.look.counts)
        now_ms = int(time.time() * 1000)
        self._blocks = list(encode(rows, plan, now_ms=now_ms, spread_from=self._spread_from))
        return summarise(self._blocks)

    def _rows(self) -> pa.Table | None:
        share_bytes = _BUDGET_BYTES // max(_SHARES_MIN, _tasks(self._frame))
        try:
            return within(asked(lambda: bounded(self._frame, share_bytes).toArrow()))
        except Exception as error:
            # More tasks than the settings tell, each within its share.
            if _TOO_MUCH in str(error):
                return None
            raise

    def send(self, identity: Identity, summary: Summary) -> Summary:
        """Send every block from this process."""
        if self._blocks is None:
            raise BlocksGone("the blocks were not computed, or are freed")
        places = [TopicPartition(part.topic, part.partition) for part in summary.partitions]
        Transactions(self._wire).add_partitions(identity, places)
        # Whoever sends again asks again: a leader may be why.
        leaders, self.look = self.look.leaders, NO_LOOK
        sender = Sender(self._wire, identity, leaders=leaders)
        try:
            sender.send(*self._blocks)
            return confirmed(summarise(self._blocks), sender.flush())
        finally:
            sender.close()

    def free(self) -> None:
        """Let go of the blocks."""
        self._blocks = None


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


def _tasks(frame: "DataFrame") -> int:
    """Return how many tasks the batch may have at most, as far as the settings tell.

    A Connect client sees settings only, and a small batch is not worth a job to learn more.
    """
    session = frame.sparkSession
    shuffled = session.conf.get("spark.sql.shuffle.partitions", "200")
    if over_connect(session):
        side_by_side = int(session.conf.get("spark.default.parallelism", "0") or 0)
    else:
        side_by_side = session.sparkContext.defaultParallelism
    return max(int(shuffled or 0), side_by_side)


def _topics(rows: pa.Table) -> list[str]:
    return sorted(name for name in rows.column("topic").unique().to_pylist() if name is not None)
