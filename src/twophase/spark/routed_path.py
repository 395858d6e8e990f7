"""A batch over the executors: encode, route, materialise, check, send."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from twophase.commit.summary import PartitionSummary, Summary
from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.kafka.identity import Identity, TopicPartition
from twophase.kafka.transactions import Transactions
from twophase.sink import BlocksGone
from twophase.spark.arrow_bound import arrow_bound
from twophase.spark.connect import over_connect, slots
from twophase.spark.jobs import asked, error_in
from twophase.spark.placing import placed
from twophase.spark.routed import ORDER, SPARK_SCHEMA
from twophase.spark.shuffles import deleted_at_once
from twophase.spark.tasks import SENT_SCHEMA, EncodeTask, SendTask
from twophase.spark.worker_path import WorkerPath

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# What a worker that sends reads at a time. Two such batches are in its memory while it goes from
# one to the next.
_BLOCKS_BYTES: Final = 4_000_000


class RoutedPath(WorkerPath):
    """The blocks of one batch, materialised on the executors' disks."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._blocks: DataFrame | None = None

    def _encoded(
        self, frame: "DataFrame", task: Callable[..., EncodeTask], routed: int, most_bytes: int
    ) -> pa.Table:
        with deleted_at_once(frame.sparkSession):
            encoded = frame.mapInArrow(task(), SPARK_SCHEMA)
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
