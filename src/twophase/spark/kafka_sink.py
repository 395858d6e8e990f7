"""`KafkaSink`: every row of a streaming query, or of a batch job, in Kafka exactly once."""

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

from twophase.commit.machine import Machine
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.errors import ConfigurationError
from twophase.kafka.leaders import leaders_request, partition_counts_in
from twophase.kafka.options import KafkaOptions
from twophase.kafka.store import KafkaStore
from twophase.kafka.wire import Wire
from twophase.observe import BatchRecord, Hook, notify, record_of
from twophase.sink import write_batch
from twophase.spark.columns import sink_columns
from twophase.spark.engine import JobEngine, SparkEngine
from twophase.spark.path import Path, Size, choose
from twophase.spark.stream import stream_batch
from twophase.watch import Watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_JOB_OWNER = "run"


class KafkaSink:
    """A function for foreachBatch that writes each micro-batch in one Kafka transaction.

    `sink_id` names the sink for ever: transactional id and marker derive from it, and two queries
    must not share one. Columns and `kafka.*` options are those of Spark's own Kafka sink. `path`
    forces small batches through the driver or all batches over the executors. Each of `hooks` is
    handed one record per batch (`twophase.observe`).
    """

    def __init__(
        self,
        *,
        sink_id: str,
        options: Mapping[str, str | int | bool],
        topic: str | None = None,
        marker_topic: str | None = None,
        checkpoint: str | None = None,
        path: str = Path.AUTO,
        hooks: Iterable[Hook] = (),
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
        self._path = Path.parse(path)
        self._hooks = tuple(hooks)
        self._machine = Machine()
        self._size: Size | None = None
        self._store: KafkaStore | None = None
        self._wire: Wire | None = None
        # Two queries that were given one sink object: the second waits, and is then refused.
        self._one_call = threading.Lock()

    def __repr__(self) -> str:
        return f"<KafkaSink {self._name.sink_id} to {self._topic or 'the topic column'}>"

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Write one micro-batch; Spark calls this."""
        chosen = sink_columns(frame, self._topic)
        call = stream_batch(frame, batch_id, self._checkpoint)
        with self._one_call:
            wire, store = self._connected()
            path = choose(self._size, call.rows_in) if self._path is Path.AUTO else self._path
            engine = SparkEngine(chosen, wire, self._topic, path, batch_id)
            record = self._write(
                self._machine,
                call.batch,
                call_id=call.run_id,
                name=self._name,
                store=store,
                engine=engine,
            )
            if engine.prepared:
                self._size = Size(record.rows, record.bytes, call.rows_in)

    def write(self, frame: "DataFrame", *, run_id: str) -> BatchRecord:
        """Write a batch job's DataFrame in one transaction, once for each `run_id`.

        Whoever runs the same run again writes nothing, for as long as Kafka keeps marker and
        transactional id (both 7 days by default). Runs of different ids may go side by side.
        """
        if frame.isStreaming:
            raise ConfigurationError(
                "the DataFrame is a stream; write it by writeStream.foreachBatch(sink)"
            )
        chosen = sink_columns(frame, self._topic)
        name = SinkName(self._name.sink_id, run_id)
        path = choose(None, None) if self._path is Path.AUTO else self._path
        batch = Batch(_JOB_OWNER, 0, "", first_try=False)
        with self._open_wire() as wire:
            store = KafkaStore(wire, name, self._marker_topic)
            engine = JobEngine(chosen, wire, self._topic, path)
            return self._write(
                Machine(), batch, call_id=uuid4().hex, name=name, store=store, engine=engine
            )

    def close(self) -> None:
        """Close the driver's connections; the next batch opens them again."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def _write(
        self,
        machine: Machine,
        batch: Batch,
        *,
        call_id: str,
        name: SinkName,
        store: KafkaStore,
        engine: SparkEngine,
    ) -> BatchRecord:
        watch = Watch()
        finished, raised = None, None
        try:
            finished = write_batch(machine, call_id, batch, store, engine, watch=watch)
        except BaseException as error:
            raised = error
            raise
        finally:
            engine.free()
            watch.stop()
            path = engine.path if engine.prepared else ""
            record = record_of(name, batch, watch, path=path, finished=finished, error=raised)
            notify(self._hooks, record)
        return record

    def _connected(self) -> tuple[Wire, KafkaStore]:
        if self._wire is None or self._store is None or self._wire.broken:
            self._wire = self._open_wire()
            self._store = KafkaStore(self._wire, self._name, self._marker_topic)
        return self._wire, self._store

    def _open_wire(self) -> Wire:
        wire = Wire(self._options)
        try:
            # A topic that is not there is said so now, before the id is taken for it.
            topics = {self._topic or self._marker_topic, self._marker_topic}
            partition_counts_in(wire.ask(leaders_request(topics)))
        except BaseException:
            wire.close()
            raise
        return wire
