"""Spark as the engine of a batch: through the driver where it is small, else by the workers."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twophase.commit.summary import Summary
from twophase.errors import BlockRefused
from twophase.kafka.dead_letters import DeadLetters, stricter
from twophase.kafka.identity import Identity
from twophase.kafka.topic_ids import TopicIds
from twophase.kafka.wire import Wire
from twophase.sink import BlocksGone
from twophase.spark.driver_path import DriverPath
from twophase.spark.jobs import execute
from twophase.spark.local_path import LocalPath
from twophase.spark.path import Path
from twophase.spark.planned import PlannedBounds
from twophase.spark.routed_path import RoutedPath

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


class SparkEngine:
    """The rows of one batch, as a DataFrame with the sink's columns only.

    `path` is the one that was chosen, and after `prepare` the one that was taken: a batch that is
    not small goes the way of `large` after all.
    """

    def __init__(
        self,
        frame: "DataFrame",
        wire: Wire,
        topic: str | None,
        path: Path,
        *,
        large: Path = Path.ROUTED,
        batch: int = 0,
        planned: PlannedBounds | None = None,
        light: Callable[[], bool] = lambda: False,
        dead: DeadLetters | None = None,
    ) -> None:
        self._frame = frame
        self._driver = DriverPath(frame, wire, topic, spread_from=batch, planned=planned, dead=dead)
        workers = LocalPath if large is Path.LOCAL else RoutedPath
        self._workers = workers(frame, wire, topic, light=light, dead=dead)
        self._large = large
        self._topics = TopicIds(wire)
        self._known: Mapping[str, Any] = {}
        self.path = path
        self.prepared = False

    @property
    def strict(self) -> bool:
        """Whether rows are held against the settings of their topics: a broker refused some."""
        return self._workers.dead is not None and self._workers.dead.strict

    @property
    def heavy(self) -> bool:
        """Whether rows that were taken to be light were not."""
        return self._workers.heavy

    def execute(self) -> None:
        """Execute the plan and write nothing: state stores advance only by that."""
        execute(self._frame)

    def prepare(self, attempt: int) -> Summary:
        """Compute the blocks and check them; one that is not small, by the workers."""
        del attempt
        self.prepared = True
        if self.path is Path.DRIVER:
            summary = self._driver.prepare()
            if summary is not None:
                self._known = self._driver.look.ids
                return summary
            self.path = self._large
        found = self._workers.prepare()
        self._known = self._workers.look.ids
        return found

    def send(self, identity: Identity, summary: Summary) -> Summary:
        """Send the blocks from where they lie."""
        sender = self._driver if self.path is Path.DRIVER else self._workers
        self._topics.remember({part.topic for part in summary.partitions}, self._known)
        # Whoever sends again asks again: the topic may have been made anew meanwhile.
        self._known = {}
        try:
            return sender.send(identity, summary)
        except BlockRefused as refused:
            # Which row it was shows when they are encoded again; this transaction is ended first.
            self._driver.dead = self._workers.dead = stricter(sender.dead, refused)
            raise BlocksGone(str(refused)) from refused

    def confirm(self) -> None:
        """Raise if a topic was made anew since its blocks were sent: they went with the old one."""
        self._topics.confirm()

    def free(self) -> None:
        """Let go of the blocks, in memory and on disks."""
        self._driver.free()
        self._workers.free()


class JobEngine(SparkEngine):
    """The rows of a batch job, which has no state: a run that is skipped computes nothing."""

    def execute(self) -> None:
        """Do nothing: the run is in the topic."""
