"""A small batch through the driver: its rows come as Arrow, and are encoded and sent here.

The whole plan is executed, because state stores advance only by that; a `limit` would execute a
part of it. What a task hands back is bounded all the same (bound.py): where a batch is beyond the
bound it is not small, and goes over the workers. So the guess that it is small may be wrong at any
size.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from twophase.commit.summary import Summary
from twophase.kafka.columns import as_bytes
from twophase.kafka.counts import NO_LOOK, look_at
from twophase.kafka.dead_letters import DeadLetters, is_topic_name
from twophase.kafka.delivery import send_batch
from twophase.kafka.identity import Identity
from twophase.kafka.plan import plan_for
from twophase.kafka.records import encode
from twophase.kafka.summaries import summarise
from twophase.kafka.wire import Wire
from twophase.sink import BlocksGone
from twophase.spark.bound import bounded, share_of, within
from twophase.spark.connect import over_connect
from twophase.spark.jobs import asked
from twophase.spark.planned import PlannedBounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twophase.kafka.blocks import Block

_TOO_MUCH: Final = "spark.driver.maxResultSize"


class DriverPath:
    """The blocks of one batch, in the driver's memory.

    `planned` is what batches before it have planned; a job has none. `look` is what `prepare` saw
    of the blocks' topics. `dead` is what becomes of rows that cannot be written; it may change
    between two `prepare`.
    """

    def __init__(
        self,
        frame: "DataFrame",
        wire: Wire,
        topic: str | None,
        *,
        spread_from: int = 0,
        planned: PlannedBounds | None = None,
        dead: DeadLetters | None = None,
    ) -> None:
        self._frame = frame
        self._wire = wire
        self._topic = topic
        self._spread_from = spread_from
        self._planned = planned
        self.dead = dead
        self._blocks: list[Block] | None = None
        self.look = NO_LOOK

    def prepare(self) -> Summary | None:
        """Compute the blocks; None where the batch is not small, and nothing is kept of it."""
        self.free()
        beside = ThreadPoolExecutor(1)
        try:
            # The topic is looked at while Spark works.
            names = [self._topic] if self._topic is not None else []
            letters = [] if self.dead is None else [self.dead.topic]
            looked = beside.submit(look_at, self._wire, names + letters)
            rows = self._rows()
            self.look = looked.result()
        finally:
            # Whoever fails need not wait for an answer that nobody reads.
            beside.shutdown(wait=False, cancel_futures=True)
        if rows is None:
            return None
        if self._topic is None:
            named = _topics(rows)
            if self.dead is None:
                self.look = look_at(self._wire, named)
            else:
                # What a row says is no reason to fail, not even to ask for what cannot be a topic.
                self.look = look_at(self._wire, letters, maybe=filter(is_topic_name, named))
        plan = plan_for(
            self._wire.options,
            self._topic,
            self.look.counts,
            dead=self.dead,
            connect=lambda: self._wire,
        )
        now_ms = int(time.time() * 1000)
        self._blocks = list(encode(rows, plan, now_ms=now_ms, spread_from=self._spread_from))
        return summarise(self._blocks)

    def _rows(self) -> pa.Table | None:
        try:
            return within(asked(self._collect))
        except Exception as error:
            # More tasks than the settings tell, each within its share.
            if _TOO_MUCH in str(error):
                return None
            raise

    def _collect(self) -> pa.Table:
        found = self._planned.collect(self._frame) if self._planned is not None else None
        if found is None:
            found = bounded(self._frame, share_of(_tasks(self._frame))).toArrow()
        return found

    def send(self, identity: Identity, summary: Summary) -> Summary:
        """Send every block from this process."""
        if self._blocks is None:
            raise BlocksGone("the blocks were not computed, or are freed")
        # Whoever sends again asks again: a leader may be why.
        leaders, self.look = self.look.leaders, NO_LOOK
        return send_batch(self._wire, identity, summary, self._blocks, leaders)

    def free(self) -> None:
        """Let go of the blocks."""
        self._blocks = None


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
    names = as_bytes(rows.column("topic").combine_chunks()).unique().to_pylist()
    return sorted(name.decode("utf-8", "backslashreplace") for name in names if name is not None)
