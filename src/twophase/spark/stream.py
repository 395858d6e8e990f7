"""Which batch of which run of which query a call of foreachBatch is for."""

import hashlib
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twophase.commit.recovery import Batch
from twophase.errors import ConfigurationError
from twophase.kafka.progress import Progress, progress_in, rows_between

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("twophase")

# The highest batch that each query of this process has come to, and the run that did: a batch that
# an earlier run of the process had planned is a replay, however young its file is.
_SEEN: dict[str, tuple[str, int]] = {}
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


def stream_batch(frame: "DataFrame", number: int, checkpoint: str | None) -> StreamBatch:
    """Return what the call is for, from the query that runs it and its checkpoint."""
    session = frame.sparkSession
    if not hasattr(session, "_jvm"):
        raise ConfigurationError(
            "over Spark Connect a sink cannot tell which query calls it; run the query in classic "
            "mode"
        )
    context = session.sparkContext
    query_id = context.getLocalProperty("sql.streaming.queryId")
    run_id = context.getLocalProperty("spark.jobGroup.id")
    if not query_id or not run_id:
        raise ConfigurationError(
            "no streaming query calls this sink; use it as writeStream.foreachBatch(sink)"
        )
    root = checkpoint or _checkpoint_of(session, query_id)
    content, written_ms = _read(session, f"{root}/offsets/{number}")
    progress = progress_in(content)
    before = _progress_before(session, root, query_id, number) if progress else {}
    _PROGRESS[query_id] = (number, progress)
    young = min(written_ms, _planned_ms(content)) > _process_started_ms(session)
    return StreamBatch(
        run_id,
        Batch(
            owner=query_id,
            number=number,
            offsets=hashlib.sha256(content).hexdigest()[:32],
            first_try=_first_try(query_id, run_id, number, young=young),
        ),
        progress,
        rows_between(before, progress),
    )


def _progress_before(session: Any, root: str, query_id: str, number: int) -> Progress:
    """Return how far the batch before has read; only the first batch of a process reads its file.

    It serves a guess only, so that a file that is not there means nothing.
    """
    known = _PROGRESS.get(query_id)
    if known is not None and known[0] == number - 1:
        return known[1]
    try:
        return progress_in(_read(session, f"{root}/offsets/{number - 1}")[0]) if number else {}
    except Exception as error:  # noqa: BLE001
        _log.debug("offsets/%d could not be read: %s", number - 1, error)
        return {}


def _first_try(query_id: str, run_id: str, number: int, *, young: bool) -> bool:
    """Whether this very run has planned the batch; False wherever that is not certain."""
    before = _SEEN.get(query_id)
    _SEEN[query_id] = (run_id, max(number, before[1] if before else number))
    if before is None:
        return young
    return before[0] == run_id or (young and number > before[1])


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
