"""A batch over the executors: encode, route, materialise, check, send."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from twophase.commit.manifest import Fault, check
from twophase.commit.summary import PartitionSummary, Summary
from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.kafka.counts import NO_LOOK, look_at
from twophase.kafka.dead_letters import DeadLetters
from twophase.kafka.identity import Identity, TopicPartition
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire
from twophase.sink import BlocksGone
from twophase.spark.arrow_bound import UNWEIGHED, arrow_bound
from twophase.spark.connect import over_connect, slots
from twophase.spark.jobs import asked, error_in
from twophase.spark.light import light_rows
from twophase.spark.placing import placed
from twophase.spark.routed import ORDER, SPARK_SCHEMA, has_heavy, parts_of
from twophase.spark.shuffles import deleted_at_once
from twophase.spark.tasks import SENT_SCHEMA, EncodeTask, SendTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# What a worker reads at a time: rows to encode, and blocks to send. Two such batches are in its
# memory while it goes from one to the next.
_ROWS_BYTES: Final = 16_000_000
_BLOCKS_BYTES: Final = 4_000_000


class RoutedPath:
    """The blocks of one batch, materialised on the executors' disks.

    Where `light` says so its rows are taken to be light (light.py); `heavy` says that they were
    not. `look` is what `prepare` saw of a topic that all rows go to, and of the dead-letter topic.
    `dead` is what becomes of rows that cannot be written; it may change between two `prepare`.
    """

    def __init__(
        self,
        frame: "DataFrame",
        wire: Wire,
        topic: str | None,
        *,
        light: Callable[[], bool] = lambda: False,
        dead: DeadLetters | None = None,
    ) -> None:
        self._frame = frame
        self._light = light
        self.dead = dead
        self.heavy = False
        self._wire = wire
        self._topic = topic
        self._blocks: DataFrame | None = None
        self.look = NO_LOOK

    def prepare(self) -> Summary:
        """Compute the blocks, materialise them and check that they are one version, whole."""
        self.free()
        # Asked for anew for each batch: a topic may gain partitions.
        topics = [] if self._topic is None else [self._topic]
        letters = [] if self.dead is None else [self.dead.topic]
        self.look = look_at(self._wire, topics + letters)
        counts = dict(self.look.counts)
        routed = self._routed(sum(counts[topic] for topic in topics))
        now_ms = int(time.time() * 1000)
        settings = (self._wire.options, self._topic, counts, routed, now_ms)
        task = partial(EncodeTask, *settings, dead=self.dead)
        labels = self._encoded_light(task, routed) if not self.heavy and self._light() else None
        if labels is None:
            labels = self._encoded(self._frame, task(), routed, _ROWS_BYTES)
        parts = parts_of(labels, routed)
        # Every task sends a manifest to every routed partition: the last one that arrived anywhere
        # says how many are due, and a shuffle of Spark's loses none without an error.
        tasks = 1 + max((m.task for part in parts for m in part.manifests), default=-1)
        found = check(parts, tasks=tasks, routed=routed)
        if isinstance(found, Fault):
            raise BlocksGone(found.reason)
        return found

    def _encoded_light(self, task: Callable[..., EncodeTask], routed: int) -> pa.Table | None:
        """Return the labels, or None where rows cannot be light or are not."""
        light = light_rows(self._frame)
        if light is None:
            return None
        labels = self._encoded(light, task(light=True), routed, UNWEIGHED)
        self.heavy = has_heavy(labels)
        if not self.heavy:
            return labels
        self.free()
        return None

    def _encoded(
        self, frame: "DataFrame", task: EncodeTask, routed: int, most_bytes: int
    ) -> pa.Table:
        """Encode, route and materialise; return the rows without their bodies."""
        with deleted_at_once(frame.sparkSession):
            encoded = frame.mapInArrow(task, SPARK_SCHEMA)
            ordered = placed(encoded, "routed", routed).sortWithinPartitions(*ORDER)
        with arrow_bound(frame.sparkSession, most_bytes):
            self._blocks = asked(lambda: ordered.localCheckpoint(eager=True))
        return asked(lambda: self._materialised.drop("body").toArrow())

    def send(self, identity: Identity, summary: Summary) -> Summary:
        """Send in one Spark job of one stage, a task for each routed partition."""
        places = [TopicPartition(part.topic, part.partition) for part in summary.partitions]
        Transactions(self._wire).add_partitions(identity, places)
        task = SendTask(self._wire.options, identity)
        frame = self._materialised.mapInArrow(task, SENT_SCHEMA, barrier=self._speculates())
        with arrow_bound(frame.sparkSession, _BLOCKS_BYTES):
            rows = [row.asDict() for row in asked(frame.collect, sending=True)]
        for error in (row.pop("error") for row in rows):
            if error is not None:
                raise error_in(error) or StoreUnavailable(error)
        return Summary(tuple(sorted(PartitionSummary(**row) for row in rows)))

    def free(self) -> None:
        """Drop the materialised blocks from the executors' disks; over Connect, forget them.

        A Connect client has no handle on what localCheckpoint has persisted: with the last
        reference gone its server forgets the blocks too, and drops them when its own garbage
        collector runs (`spark.cleaner.periodicGC.interval` at the latest).
        """
        if self._blocks is not None and not over_connect(self._blocks.sparkSession):
            # The only handle on what localCheckpoint has persisted: unpersist() of the DataFrame
            # knows nothing of it, and the garbage collector comes when it likes.
            self._blocks._jdf.logicalPlan().rdd().unpersist(False)  # noqa: SLF001, FBT003
        self._blocks = None

    @property
    def _materialised(self) -> "DataFrame":
        if self._blocks is None:
            raise BlocksGone("the blocks were not materialised, or are freed")
        return self._blocks

    def _routed(self, partitions: int) -> int:
        """Return how many senders work side by side: no more than there is room or work for."""
        if partitions == 1:
            return 1
        room = slots(self._frame.sparkSession)
        return min(partitions, room) if partitions else room

    def _speculates(self) -> bool:
        """Whether Spark may start a second copy of a slow task, which a barrier stage forbids."""
        if not self._on("spark.speculation"):
            return False
        if self._on("spark.dynamicAllocation.enabled"):
            raise ConfigurationError(
                "spark.speculation and spark.dynamicAllocation.enabled are both true; a send task "
                "must not be speculated, and Spark forbids that only without dynamic allocation; "
                "switch one of them off"
            )
        return True

    def _on(self, setting: str) -> bool:
        return str(self._frame.sparkSession.conf.get(setting, "false")).lower() == "true"
