"""`PlainSink`: the guarantees without a transaction, at least once and none."""

import threading
from typing import TYPE_CHECKING, Any

from twophase.call_watch import CallWatch, Phase
from twophase.commit.naming import SinkName
from twophase.guarantee import Guarantee
from twophase.kafka.counts import checked_wire
from twophase.kafka.dead_letters import DeadLetters
from twophase.kafka.options import KafkaOptions
from twophase.observe import BatchRecord, Hook, announce, notify, plain_record
from twophase.spark.unrouted import write_unrouted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class PlainSink:
    """Writes batches and jobs; nothing of them is remembered, here or at the brokers.

    `topics` must all be there, whichever of them rows go to.
    """

    def __init__(
        self,
        name: SinkName,
        options: KafkaOptions,
        guarantee: Guarantee,
        topics: tuple[str, ...],
        *,
        topic: str | None,
        dead_letter_topic: str | None,
        hooks: tuple[Hook, ...],
    ) -> None:
        self._name = name
        self._options, self._guarantee = options, guarantee
        self._topics, self._topic = topics, topic
        self._dead_letter_topic = dead_letter_topic
        self._hooks = hooks
        self._begin()

    def _begin(self) -> None:
        """Set what belongs to this object in this process and goes nowhere else."""
        self._strict = False
        # Two queries that were given one sink object: the second waits.
        self._one_call = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings only."""
        here = {"_strict", "_one_call"}
        return {name: value for name, value in vars(self).items() if name not in here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Write one micro-batch, of the columns of a Kafka record."""
        with self._one_call:
            self._write(frame, batch_id, self._name)

    def write(self, frame: "DataFrame", *, run_id: str) -> BatchRecord:
        """Write a batch job's DataFrame."""
        return self._write(frame, 0, SinkName(self._name.sink_id, run_id))

    def _write(self, frame: "DataFrame", number: int, name: SinkName) -> BatchRecord:
        watch = CallWatch()
        watch.phase = Phase.SEND
        announce(self._hooks, name, number, watch)
        written, raised = None, None
        try:
            with checked_wire(self._options, self._topics) as wire:
                dead = self._dead_letters(name, number)
                written = write_unrouted(frame, wire, self._topic, self._guarantee, dead)
                self._strict = written.strict
        except BaseException as error:
            raised = error
            raise
        finally:
            watch.stop()
            record = plain_record(
                name,
                number,
                guarantee=self._guarantee,
                written=written,
                total_s=watch.total_s,
                error=raised,
            )
            notify(self._hooks, record)
        return record

    def _dead_letters(self, name: SinkName, batch: int) -> DeadLetters | None:
        if self._dead_letter_topic is None:
            return None
        ids = (name.sink_id, batch, name.run_id)
        return DeadLetters(self._dead_letter_topic, *ids, strict=self._strict)
