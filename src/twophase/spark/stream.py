"""Which batch of which run of which query a call of foreachBatch is for."""

import json
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twophase.commit.marker import offsets_hash
from twophase.commit.recovery import Batch
from twophase.errors import ConfigurationError
from twophase.kafka.progress import Progress, has_idle_source, progress_in, rows_between
from twophase.spark.connect import named_query, over_connect, read_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("twophase")

# Per query of this process: the run that came last, the highest batch, whether that was planned by
# this run, and when it was asked for. A batch that an earlier run had planned is a replay, however
# young its file is.
_SEEN: dict[str, tuple[str, int, bool, int]] = {}
# How far each query's last batch has read its Kafka sources.
_PROGRESS: dict[str, tuple[int, Progress]] = {}


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One call: the run that makes it, the batch, and what it reads from Kafka, if anything.

    `rows_in` is about how many rows it reads; None where the sources do not tell. `idle`: a source
    has no offset yet, and may be Kafka.
    """

    run_id: str
    batch: Batch
    progress: Progress
    rows_in: int | None
    idle: bool


@dataclass(frozen=True, slots=True)
class _Call:
    """Where a call comes from: `query` is what this process remembers it by."""

    session: Any
    query: str
    run_id: str
    owner: str
    root: str


@dataclass(frozen=True, slots=True)
class SinkObject:
    """What a sink says of itself: the user's names, if given, and the object that was made.

    `owner` is the user's name for the query, by default its id. `object_id` is new for each object
    that a sink is made or unpickled to: over Connect that is one for each run of the query.
    """

    checkpoint: str | None
    owner: str | None
    object_id: str
    made_ms: int


def stream_batch(frame: "DataFrame", number: int, sink: SinkObject) -> StreamBatch:
    """Return what the call is for, from the query that runs it and its checkpoint."""
    session = frame.sparkSession
    if over_connect(session):
        name, root = named_query(sink.owner, sink.checkpoint)
        # Remembered by the run: two sinks of one query are two of them here.
        call = _Call(session, sink.object_id, sink.object_id, name, root)
        content, planned_ms = read_file(session, f"{root}/offsets/{number}"), 0
    else:
        call = _classic_call(session, sink)
        content, planned_ms = _read_classic(call, number)
    progress = progress_in(content)
    before = _progress_before(call, number) if progress else {}
    _PROGRESS[call.query] = (number, progress)
    return StreamBatch(
        call.run_id,
        Batch(
            owner=call.owner,
            number=number,
            offsets=offsets_hash(content),
            first_try=_first_try(call, number, planned_ms, sink.made_ms),
        ),
        progress,
        rows_between(before, progress),
        has_idle_source(content),
    )


def _classic_call(session: Any, sink: SinkObject) -> _Call:
    query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    query = _running(session, query_id) if query_id else None
    if query is None:
        raise ConfigurationError(
            "no streaming query calls this sink; use it as writeStream.foreachBatch(sink)"
        )
    # Not the job group, which would be the same: users set one of their own in foreachBatch.
    run_id = str(query.runId().toString())
    root = sink.checkpoint or str(query.resolvedCheckpointRoot())
    if sink.checkpoint is not None and _SEEN.get(query_id, ("",))[0] != run_id:
        _check_own(session, root, query_id)
    return _Call(session, query_id, run_id, sink.owner or query_id, root)


def _check_own(session: Any, root: str, query_id: str) -> None:
    """Refuse a checkpoint that is another query's: its offsets would say nothing of this batch."""
    found = json.loads(_read(session, f"{root}/metadata")[0]).get("id")
    if found != query_id:
        raise ConfigurationError(
            f"checkpoint is {root}, which belongs to query {found}; this query is {query_id}: give "
            "its own checkpointLocation, or leave checkpoint out"
        )


def _read_classic(call: _Call, number: int) -> tuple[bytes, int]:
    """Return `offsets/N`, and when it was planned by two witnesses: 0 if before this process."""
    content, written_ms = _read(call.session, f"{call.root}/offsets/{number}")
    planned_ms = min(written_ms, _planned_ms(content))
    return content, planned_ms if planned_ms > _process_started_ms(call.session) else 0


def _progress_before(call: _Call, number: int) -> Progress:
    """Return how far the batch before has read; only the first batch of a process reads its file.

    It serves a guess only, so that a file that is not there means nothing.
    """
    known = _PROGRESS.get(call.query)
    if known is not None and known[0] == number - 1:
        return known[1]
    path = f"{call.root}/offsets/{number - 1}"
    try:
        if number == 0:
            return {}
        if over_connect(call.session):
            return progress_in(read_file(call.session, path))
        return progress_in(_read(call.session, path)[0])
    except Exception as error:  # noqa: BLE001
        _log.debug("offsets/%d could not be read: %s", number - 1, error)
        return {}


def _first_try(call: _Call, number: int, planned_ms: int, made_ms: int) -> bool:
    """Whether this very run has planned the batch; False wherever that is not certain.

    Only the first batch of a run can be a replay. A second call for it, by another sink of the
    query or by a user's own retry, makes it no newer. Planned before the sink was made, it is
    another run's. Where an earlier run of this process has called the sink, another process may
    have run the query since then: only a sink that was made since tells that it has not.
    """
    run_id, highest, answer, asked_ms = _SEEN.get(call.query, (call.run_id, -1, False, 0))
    young = planned_ms > made_ms
    if call.query not in _SEEN:
        answer = young
    elif run_id != call.run_id:
        answer = young and number > highest and made_ms > asked_ms
    elif number != highest:
        answer = number > highest
    _SEEN[call.query] = (call.run_id, max(number, highest), answer, wall_ms())
    return answer


def wall_ms() -> int:
    """Return the time of day."""
    return int(time.time() * 1000)


def _process_started_ms(session: Any) -> int:
    management = session._jvm.java.lang.management.ManagementFactory  # noqa: SLF001
    return int(management.getRuntimeMXBean().getStartTime())


def _planned_ms(content: bytes) -> int:
    """Return when the driver planned the batch, by its own clock; 0 if the file does not say."""
    for line in content.decode("utf-8", "replace").splitlines()[1:2]:
        try:
            return int(json.loads(line)["batchTimestampMs"])
        except (ValueError, KeyError, TypeError):
            return 0
    return 0


def _running(session: Any, query_id: str) -> Any:
    """Return the running query of this id, which Spark itself keeps to itself; None if none."""
    jvm = session._jvm  # noqa: SLF001 - there is no public way to a query's run and checkpoint
    queries = session._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001
    return queries.get(jvm.java.util.UUID.fromString(query_id))


def _read(session: Any, path: str) -> tuple[bytes, int]:
    """Return a file's bytes and time, by Hadoop's file system and the user's credentials for it."""
    jvm = session._jvm  # noqa: SLF001
    place = jvm.org.apache.hadoop.fs.Path(path)
    files = place.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
    if not files.exists(place):
        raise ConfigurationError(
            f"{path} is not there; checkpoint must be the query's own checkpointLocation"
        )
    status = files.getFileStatus(place)
    stream = files.open(place)
    try:
        content = bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()
    return content, int(status.getModificationTime())
