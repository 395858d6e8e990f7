"""`KafkaSink`: every row of a streaming query in Kafka exactly once."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from twophase.commit.machine import Machine
from twophase.commit.naming import SinkName
from twophase.errors import ConfigurationError
from twophase.kafka.leaders import leaders_request, partition_counts_in
from twophase.kafka.options import KafkaOptions
from twophase.kafka.store import KafkaStore
from twophase.kafka.wire import Wire
from twophase.sink import write_batch
from twophase.spark.columns import sink_columns
from twophase.spark.engine import SparkEngine
from twophase.spark.stream import stream_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("twophase")


class KafkaSink:
    """A function for foreachBatch that writes each micro-batch in one Kafka transaction.

    `sink_id` names the sink for ever: transactional id and marker derive from it, and two queries
    must not share one. Columns and `kafka.*` options are those of Spark's own Kafka sink.
    """

    def __init__(
        self,
        *,
        sink_id: str,
        options: Mapping[str, str | int | bool],
        topic: str | None = None,
        marker_topic: str | None = None,
        checkpoint: str | None = None,
    ) -> None:
        if topic is None and marker_topic is None:
            raise ConfigurationError(
                "neither topic nor marker_topic is given; where topics come from a column only, "
                "marker_topic names the one that holds the sink's marker"
            )
        self._name = SinkName(sink_id)
        self._options = KafkaOptions.parse(options)
        if self._options.acks != -1:
            raise ConfigurationError(
                "kafka.acks must be all: with less an acknowledged row can be lost; leave it out"
            )
        self._topic = topic
        self._marker_topic = marker_topic or topic or ""
        self._checkpoint = checkpoint
        self._machine = Machine()
        self._wire: Wire | None = None

    def __repr__(self) -> str:
        return f"<KafkaSink {self._name.sink_id} to {self._topic or 'the topic column'}>"

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Write one micro-batch; Spark calls this."""
        chosen = sink_columns(frame, self._topic)
        call = stream_batch(frame, batch_id, self._checkpoint)
        wire = self._connected()
        engine = SparkEngine(chosen, wire, self._topic)
        try:
            done = write_batch(self._machine, call.run_id, call.batch, self._store, engine)
        finally:
            engine.free()
        for warning in done.warnings:
            _log.warning("%s: %s", self._name.sink_id, warning)
        _log.info(
            "sink_id=%s batch=%d outcome=%s attempts=%d",
            *(self._name.sink_id, batch_id, done.outcome.value, done.attempts),
        )

    def close(self) -> None:
        """Close the driver's connections; the next batch opens them again."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def _connected(self) -> Wire:
        if self._wire is None or self._wire.broken:
            wire = Wire(self._options)
            try:
                # A topic that is not there is said so now, before the id is taken for it.
                topics = {self._topic or self._marker_topic, self._marker_topic}
                partition_counts_in(wire.ask(leaders_request(topics)))
            except BaseException:
                wire.close()
                raise
            self._wire = wire
            self._store = KafkaStore(wire, self._name, self._marker_topic)
        return self._wire
