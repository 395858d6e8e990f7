"""`KafkaSink`: every row of a streaming query, or of a batch job, in Kafka exactly once."""

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from twophase.commit.machine import Machine
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.commit.refusals import RUN_OWNER, named
from twophase.errors import ConfigurationError, RecoveryError
from twophase.guarantee import Guarantee
from twophase.kafka.counts import checked_wire
from twophase.kafka.dead_letters import DeadLetters, OnReject, checked_rejects
from twophase.kafka.fitness import check_fit
from twophase.kafka.options import KafkaOptions, acks_for
from twophase.kafka.security import TokenProvider
from twophase.kafka.store import KafkaStore
from twophase.kafka.task_sink import POOL_SIZE
from twophase.kafka.wire import Wire
from twophase.observe import BatchRecord, Hook, announce, notify, record_of
from twophase.sink import write_batch
from twophase.spark.columns import sink_columns
from twophase.spark.connect import checked_owner
from twophase.spark.engine import JobEngine, SparkEngine
from twophase.spark.jobs import check_is_job
from twophase.spark.kafka_by_task import (
    KafkaByTask,
    Scope,
    check_batch_scope,
    check_task_scope,
    kafka_by_task,
    task_defaults,
)
from twophase.spark.kafka_settings import checked_group, tell_unused, tell_unused_in_job
from twophase.spark.light import job_may_guess, stream_may_guess
from twophase.spark.local_path import large_path
from twophase.spark.path import Path, Size, choose, likely_light
from twophase.spark.plain_sink import PlainSink
from twophase.spark.planned import PlannedBounds
from twophase.spark.stream import SinkObject, StreamBatch, stream_batch, wall_ms
from twophase.spark.written import Calls, Written, check_not_written, note_written
from twophase.task_scope import OnLost
from twophase.watch import Watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from twophase.commit.effects import Finished


_log = logging.getLogger("twophase")


class KafkaSink:
    """A function for foreachBatch that writes each micro-batch in one Kafka transaction.

    `sink_id` names the sink for ever: transactional id and marker derive from it, and two queries
    must not share one. Columns and `kafka.*` options are those of Spark's own Kafka sink. `path`
    forces small batches through the driver, or all batches over the executors ("routed") or files
    of this machine ("local", for local masters). Each of `hooks` is
    handed one record per batch (`twophase.observe`).

    Over Spark Connect `owner`, a name for the query for ever, and `checkpoint`, its
    checkpointLocation, must be given; hooks then run in the server's process for the query. In
    classic mode the sink finds both, and an owner that is given stands for the query's id.

    With a `source_group` the offsets that the batch has read from Kafka are committed to that group
    in the same transaction.

    With less than the `guarantee` exactly-once there is no transaction and no marker, and every
    task sends its own rows: at-least-once doubles rows where Spark repeats a task or a batch, none
    goes on when rows are lost, and counts them.

    With the `scope` "task" every task has a transaction of its own, and nothing is shuffled. Which
    of them count is in a decision log, in the checkpoint or under `decisions`. `pool_size` bounds
    the attempts of one batch. `on_lost` says what to do where Kafka has aborted what was decided,
    by its transaction timeout: "fail", or "record" what is missing and go on.

    With `on_reject` "dead-letter" a row that no retry can write goes to `dead_letter_topic`, in the
    same transaction and with the reason in its headers; with "fail" it fails the batch.

    With `kafka.sasl.mechanism` OAUTHBEARER a `token_provider`, a function without arguments,
    returns a fresh token, on the driver and on executors.
    """

    def __init__(
        self,
        *,
        sink_id: str,
        options: Mapping[str, str | int | bool],
        topic: str | None = None,
        marker_topic: str | None = None,
        checkpoint: str | None = None,
        owner: str | None = None,
        guarantee: str = Guarantee.EXACTLY_ONCE,
        source_group: str | None = None,
        path: str = Path.AUTO,
        hooks: Iterable[Hook] = (),
        scope: str = Scope.BATCH,
        decisions: str | None = None,
        on_lost: str = OnLost.FAIL,
        pool_size: int = POOL_SIZE,
        on_reject: str = OnReject.FAIL,
        dead_letter_topic: str | None = None,
        token_provider: TokenProvider | None = None,
    ) -> None:
        promised = Guarantee.parse(guarantee)
        transactional = promised is Guarantee.EXACTLY_ONCE
        if transactional and topic is None and marker_topic is None:
            raise ConfigurationError(
                "neither topic nor marker_topic is given; where topics come from a column only, "
                "marker_topic names the one that holds the sink's marker"
            )
        self._name = SinkName(sink_id)
        by_task = Scope.parse(scope) is Scope.TASK
        given = {**task_defaults(options), **options} if by_task else options
        self._options = KafkaOptions.parse(given, token_provider=token_provider)
        acks_for(promised, self._options)
        self._topic = topic
        self._marker_topic = (marker_topic or topic or "") if transactional else ""
        self._checkpoint = checkpoint
        self._owner = checked_owner(owner)
        self._source_group = checked_group(source_group, promised)
        self._path = Path.parse(path)
        self._dead_letter_topic = checked_rejects(on_reject, dead_letter_topic, topic)
        self._hooks = tuple(hooks)
        tell_unused(
            promised,
            self._options,
            marker_topic=marker_topic,
            checkpoint=checkpoint,
            owner=owner,
            path=None if self._path is Path.AUTO else self._path,
        )
        self._plain = None if transactional else self._plain_sink(promised)
        self._by_task: KafkaByTask | None = None
        if not by_task:
            check_batch_scope(decisions, on_lost, pool_size)
        else:
            check_task_scope(promised, source_group, self._path)
            self._by_task = kafka_by_task(
                self._options,
                topic=topic,
                marker_topic=self._marker_topic,
                pool_size=pool_size,
                dead_letter_topic=self._dead_letter_topic,
                sink_id=sink_id,
                checkpoint=checkpoint,
                owner=owner,
                decisions=decisions,
                on_lost=on_lost,
                hooks=self._hooks,
            )
        self._begin()

    def _begin(self) -> None:
        """Set what belongs to this object in this process and goes nowhere else."""
        self._machine = Machine()
        self._size: Size | None = None
        self._strict = False
        self._planned = PlannedBounds()
        self._store: KafkaStore | None = None
        self._wire: Wire | None = None
        # Over Spark Connect each run of the query unpickles a sink of its own.
        self._made = SinkObject(self._checkpoint, self._owner, uuid4().hex, wall_ms())
        # Two queries that were given one sink object: the second waits, and is then refused.
        self._one_call = threading.Lock()
        self._calls = Calls(self.sink_id)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings only: a sink that is sent to a Spark Connect server begins there."""
        here = {"_machine", "_size", "_strict", "_planned", "_store", "_wire"}
        here |= {"_made", "_one_call", "_calls"}
        return {name: value for name, value in vars(self).items() if name not in here}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    def __repr__(self) -> str:
        return f"<KafkaSink {self._name.sink_id} to {self._topic or 'the topic column'}>"

    @property
    def sink_id(self) -> str:
        """The sink's name, for ever."""
        return self._name.sink_id

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Write one micro-batch; Spark calls this."""
        if self._by_task is not None:
            self._by_task(frame, batch_id)
            return
        if self._plain is not None:
            self._plain(sink_columns(frame, self._topic), batch_id)
            return
        with self._calls.call(batch_id):
            self._write_batch(frame, batch_id)

    def _write_batch(self, frame: "DataFrame", batch_id: int) -> None:
        chosen = sink_columns(frame, self._topic)
        call = stream_batch(frame, batch_id, self._made)
        place = (",".join(self._options.bootstrap_servers), self._name.transactional_id)
        now = Written(call.run_id, batch_id, self._made.object_id)
        with self._one_call:
            check_not_written(place, now)
            wire, store = self._connected()
            self._add_source(store, call)
            large = large_path(frame, self._path)
            path = choose(self._path, self._size, call.rows_in, large)
            engine = SparkEngine(
                chosen,
                wire,
                self._topic,
                path,
                large=large,
                batch=batch_id,
                planned=self._planned.begin(call.run_id, frame),
                light=lambda: likely_light(self._size) and stream_may_guess(chosen),
                dead=self._dead_letters(self._name, batch_id),
            )
            record = self._write(
                self._machine,
                call.batch,
                call_id=call.run_id,
                name=self._name,
                store=store,
                engine=engine,
            )
            note_written(place, now)
            store.follow_end()
            if engine.prepared:
                heavy = engine.heavy or (self._size is not None and self._size.heavy)
                rows = record.rows + record.rejected_rows
                self._size = Size(rows, record.bytes, call.rows_in, heavy)
                self._strict = engine.strict

    def write(self, frame: "DataFrame", *, run_id: str) -> BatchRecord:
        """Write a batch job's DataFrame in one transaction, once for each `run_id`.

        Whoever runs the same run again writes nothing, for as long as Kafka keeps marker and
        transactional id (both 7 days by default), in task scope as long as the decision log is
        kept. Runs of different ids may go side by side.
        """
        if self._by_task is not None:
            return self._by_task.write(frame, run_id=run_id)
        check_is_job(frame)
        chosen = sink_columns(frame, self._topic)
        if self._plain is not None:
            return self._plain.write(chosen, run_id=run_id)
        tell_unused_in_job(
            self.sink_id,
            source_group=self._source_group,
            checkpoint=self._checkpoint,
            owner=self._owner,
        )
        name = SinkName(self._name.sink_id, run_id)
        large = large_path(frame, self._path)
        path = choose(self._path, None, None, large)
        batch = Batch(RUN_OWNER, 0, "", first_try=False)
        with self._open_wire() as wire:
            store = self._store_of(name, wire)
            engine = JobEngine(
                chosen,
                wire,
                self._topic,
                path,
                large=large,
                light=lambda: job_may_guess(chosen),
                dead=self._dead_letters(name, 0),
            )
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
        patience = store.patience
        watch = Watch(
            lambda: patience.warn_after_s, patience.warn, lambda: patience.timeout_ms / 1000
        )
        announce(self._hooks, name, batch.number, watch)
        finished: Finished | None = None
        raised: BaseException | None = None
        try:
            finished = write_batch(machine, call_id, batch, store, engine, watch=watch)
        except RecoveryError as error:
            raised = named(error, name, self._marker_topic)
            # The same refusal with the real names in it: one text is enough for a person.
            raise raised from None
        except BaseException as error:
            raised = error
            raise
        finally:
            watch.stop()
            path = engine.path if engine.prepared else ""
            record = record_of(
                name,
                batch,
                watch,
                path=path,
                finished=finished,
                error=raised,
                dead_letter_topic=self._dead_letter_topic,
            )
            notify(self._hooks, record)
            _free(engine)
        return record

    def _plain_sink(self, guarantee: Guarantee) -> PlainSink:
        return PlainSink(
            self._name,
            self._options,
            guarantee,
            self._topics,
            topic=self._topic,
            dead_letter_topic=self._dead_letter_topic,
            hooks=self._hooks,
        )

    @property
    def _topics(self) -> tuple[str, ...]:
        """All topics that must be there, by name."""
        topics = (self._topic, self._marker_topic, self._dead_letter_topic)
        return tuple(name for name in topics if name)

    def _add_source(self, store: KafkaStore, call: StreamBatch) -> None:
        """Let the batch's transaction say how far its Kafka sources were read, if it is to."""
        if self._source_group is not None and not call.progress and not call.idle:
            raise ConfigurationError(
                f"source_group is {self._source_group!r}, and offsets/{call.batch.number} of the "
                "checkpoint names no Kafka source; leave source_group out"
            )
        store.accompany(call.batch.number, self._source_group, call.progress)

    def _dead_letters(self, name: SinkName, batch: int) -> DeadLetters | None:
        if self._dead_letter_topic is None:
            return None
        ids = (name.sink_id, batch, name.run_id)
        return DeadLetters(self._dead_letter_topic, *ids, strict=self._strict)

    def _connected(self) -> tuple[Wire, KafkaStore]:
        if self._wire is None or self._store is None or self._wire.broken:
            self.close()
            self._wire = self._open_wire()
            if self._store is None:
                self._store = self._store_of(self._name, self._wire)
            self._store.use(self._wire)
        return self._wire, self._store

    def _store_of(self, name: SinkName, wire: Wire) -> KafkaStore:
        return KafkaStore(wire, name, self._marker_topic, longest_ms=check_fit(wire))

    def _open_wire(self) -> Wire:
        # A topic that is not there is said so now, before the id is taken for it.
        return checked_wire(self._options, self._topics)


def _free(engine: SparkEngine) -> None:
    """Let go of the blocks; a Spark that cannot does not change what became of the batch."""
    try:
        engine.free()
    except Exception as error:  # noqa: BLE001
        _log.warning("the blocks of a batch could not be freed: %s", error)
