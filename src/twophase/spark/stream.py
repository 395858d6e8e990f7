"""Which batch of which run of which query a call of foreachBatch is for."""

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twophase.commit.marker import offsets_hash
from twophase.commit.recovery import Batch
from twophase.errors import ConfigurationError
from twophase.kafka.progress import Progress, progress_in, rows_between
from twophase.spark.connect import named_query, over_connect, read_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("twophase")

# Per query of this process: the run that came last, the highest batch, and whether that was planned
# by this run. A batch that an earlier run had planned is a replay, however young its file is.
_SEEN: dict[str, tuple[str, int, bool]] = {}
# How far each query's last batch has read its Kafka sources.
_PROGRESS: dict[str, tuple[int, Progress]] = {}


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One call: the run that makes it, the batch, and what it reads from Kafka, if anything.

    `rows_in` is about how many rows it reads; None where the sources do not tell.
    """

    run_id: str
    batch: Batch
    progress: Progress
    rows_in: int | None


@dataclass(frozen=True, slots=True)
class _Call:
    """Where a call comes from: `query` is what this process remembers it by."""

    session: Any
    query: str
    run_id: str
    owner: str
    root: str


def stream_batch(
    frame: "DataFrame", number: int, *, checkpoint: str | None, owner: str | None, run_id: str
) -> StreamBatch:
    """Return what the call is for, from the query that runs it and its checkpoint.

    `owner` is the user's name for the query, by default its id. `run_id` is new for each object
    that a sink is unpickled to: over Connect that is one for each run of the query.
    """
    session = frame.sparkSession
    if over_connect(session):
        name, root = named_query(owner, checkpoint)
        # Remembered by the run: two sinks of one query are two of them here.
        call = _Call(session, run_id, run_id, name, root)
        content, young = read_file(session, f"{root}/offsets/{number}"), False
    else:
        call = _classic_call(session, checkpoint, owner)
        content, young = _read_classic(call, number)
    progress = progress_in(content)
    before = _progress_before(call, number) if progress else {}
    _PROGRESS[call.query] = (number, progress)
    return StreamBatch(
        call.run_id,
        Batch(
            owner=call.owner,
            number=number,
            offsets=offsets_hash(content),
            first_try=_first_try(call, number, young=young),
        ),
        progress,
        rows_between(before, progress),
    )


def _classic_call(session: Any, checkpoint: str | None, owner: str | None) -> _Call:
    context = session.sparkContext
    query_id = context.getLocalProperty("sql.streaming.queryId")
    run_id = context.getLocalProperty("spark.jobGroup.id")
    if not query_id or not run_id:
        raise ConfigurationError(
            "no streaming query calls this sink; use it as writeStream.foreachBatch(sink)"
        )
    root = checkpoint or _checkpoint_of(session, query_id)
    return _Call(session, query_id, run_id, owner or query_id, root)


def _read_classic(call: _Call, number: int) -> tuple[bytes, bool]:
    """Return `offsets/N`, and whether it is younger than this process by two witnesses."""
    content, written_ms = _read(call.session, f"{call.root}/offsets/{number}")
    return content, min(written_ms, _planned_ms(content)) > _process_started_ms(call.session)


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


def _first_try(call: _Call, number: int, *, young: bool) -> bool:
    """Whether this very run has planned the batch; False wherever that is not certain.

    Only the first batch of a run can be a replay. A second call for it, by another sink of the
    query or by a user's own retry, makes it no newer.
    """
    run_id, highest, answer = _SEEN.get(call.query, (call.run_id, -1, False))
    if call.query not in _SEEN:
        answer = young
    elif run_id != call.run_id:
        answer = young and number > highest
    elif number != highest:
        answer = number > highest
    _SEEN[call.query] = (call.run_id, max(number, highest), answer)
    return answer


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


def _checkpoint_of(session: Any, query_id: str) -> str:
    """Return the checkpoint of a running query, which Spark itself keeps to itself."""
    jvm = session._jvm  # noqa: SLF001 - there is no public way to a query's checkpoint
    queries = session._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001
    query = queries.get(jvm.java.util.UUID.fromString(query_id))
    if query is None:
        raise ConfigurationError(
            "the checkpoint of the query could not be found; give the sink checkpoint=..."
        )
    return str(query.resolvedCheckpointRoot())


def _read(session: Any, path: str) -> tuple[bytes, int]:
    """Return a file's bytes and time, by Hadoop's file system and the user's credentials for it."""
    jvm = session._jvm  # noqa: SLF001
    place = jvm.org.apache.hadoop.fs.Path(path)
    files = place.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
    status = files.getFileStatus(place)
    stream = files.open(place)
    try:
        content = bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()
    return content, int(status.getModificationTime())
