"""The blocks of a batch, encoded by Spark's Python workers and checked before any is sent."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from twophase.commit.manifest import Fault, check
from twophase.commit.summary import Summary
from twophase.kafka.counts import NO_LOOK, look_at
from twophase.kafka.dead_letters import DeadLetters
from twophase.kafka.identity import Identity
from twophase.kafka.wire import Wire
from twophase.sink import BlocksGone
from twophase.spark.arrow_bound import UNWEIGHED
from twophase.spark.light import light_rows
from twophase.spark.routed import has_heavy, parts_of
from twophase.spark.tasks import EncodeTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


# What a worker reads at a time. Two such batches are in its memory while it goes from one to the
# next.
_ROWS_BYTES: Final = 16_000_000


class WorkerPath(ABC):
    """The blocks of one batch; where they lie until they are sent, a subclass says.

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
        self.look = NO_LOOK

    def prepare(self) -> Summary:
        """Compute the blocks, put them where they are sent from, check: one version, whole."""
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
            labels = self._encoded(self._frame, task, routed, _ROWS_BYTES)
        parts = parts_of(labels, routed)
        # Every task sends a manifest to every routed partition: the last one that arrived anywhere
        # says how many are due, and Spark loses none of a job's rows without an error.
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
        labels = self._encoded(light, partial(task, light=True), routed, UNWEIGHED)
        self.heavy = has_heavy(labels)
        if not self.heavy:
            return labels
        self.free()
        return None

    @abstractmethod
    def _routed(self, partitions: int) -> int:
        """Return how many senders there will be, for a topic of so many partitions; 0: unknown."""

    @abstractmethod
    def _encoded(
        self, frame: "DataFrame", task: Callable[..., EncodeTask], routed: int, most_bytes: int
    ) -> pa.Table:
        """Encode the rows, keep the blocks and return their rows without the bodies, in order."""

    @abstractmethod
    def send(self, identity: Identity, summary: Summary) -> Summary:
        """Send the blocks; return what was acknowledged."""

    @abstractmethod
    def free(self) -> None:
        """Let go of the blocks."""
