"""Which batch of which run of which query a call of foreachBatch is for."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twophase.commit.marker import offsets_hash
from twophase.commit.recovery import Batch
from twophase.errors import ConfigurationError
from twophase.kafka.progress import Progress, has_idle_source, progress_in, rows_between
from twophase.spark.connect import named_query, over_connect, read_file
from twophase.spark.driver_jvm import Folder, calling_query, started_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger("twophase")

# Per query of this process: the run that came last, the highest batch, whether that was planned by
# this run, and when it was asked for. A batch that an earlier run had planned is a replay, however
# young its file is.
_SEEN: dict[str, tuple[str, int, bool, int]] = {}
# How far each query's last batch has read its Kafka sources.
_PROGRESS: dict[str, tuple[int, Progress]] = {}
# Each query's checkpoint, opened once for each run and each root that its sinks were given.
_FOLDERS: dict[str, tuple[tuple[str, str | None], Folder]] = {}


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One call: the run that makes it, the batch, and what it reads from Kafka, if anything.

    `rows_in` is about how many rows it reads; None where the sources do not tell. `idle`: a source
    has no offset yet, and may be Kafka. `root` is the query's checkpoint.
    """

    run_id: str
    root: str
    batch: Batch
    progress: Progress
    rows_in: int | None
    idle: bool


@dataclass(frozen=True, slots=True)
class _Call:
    """Where a call comes from: `query` is what this process remembers it by.

    `read` returns a file of the checkpoint, `written_ms` when it was written, 0 where that is not
    known; what is older than `since_ms` is another process's.
    """

    query: str
    run_id: str
    owner: str
    root: str
    read: Callable[[str], bytes]
    since_ms: int = 0
    written_ms: Callable[[str], int] = lambda _: 0


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
        call = _Call(
            sink.object_id,
            sink.object_id,
            name,
            root,
            lambda file: read_file(session, f"{root}/{file}"),
        )
    else:
        call = _classic_call(session, sink)
    content = call.read(f"offsets/{number}")
    progress = progress_in(content)
    before = _progress_before(call, number) if progress else {}
    _PROGRESS[call.query] = (number, progress)
    return StreamBatch(
        call.run_id,
        call.root,
        Batch(
            owner=call.owner,
            number=number,
            offsets=offsets_hash(content),
            first_try=_first_try(call, number, _planned_ms(call, number, content), sink.made_ms),
        ),
        progress,
        rows_between(before, progress),
        has_idle_source(content),
    )


def _classic_call(session: Any, sink: SinkObject) -> _Call:
    running = calling_query(session)
    if running is None:
        raise ConfigurationError(
            "no streaming query calls this sink; use it as writeStream.foreachBatch(sink)"
        )
    query_id, run_id = running.query_id, running.run_id
    asked_for = (run_id, sink.checkpoint)
    known, folder = _FOLDERS.get(query_id, (None, None))
    if folder is None or known != asked_for:
        folder = Folder(session, sink.checkpoint or str(running.query.resolvedCheckpointRoot()))
        _FOLDERS[query_id] = (asked_for, folder)
    if sink.checkpoint is not None and _SEEN.get(query_id, ("",))[0] != run_id:
        _check_own(folder, query_id)
    owner = sink.owner or query_id
    since_ms = started_ms(session)
    return _Call(query_id, run_id, owner, folder.root, folder.read, since_ms, folder.written_ms)


def _check_own(folder: Folder, query_id: str) -> None:
    """Refuse a checkpoint that is another query's: its offsets would say nothing of this batch."""
    found = json.loads(folder.read("metadata")).get("id")
    if found != query_id:
        raise ConfigurationError(
            f"checkpoint is {folder.root}, which belongs to query {found}; this query is "
            f"{query_id}: give its own checkpointLocation, or leave checkpoint out"
        )


def _progress_before(call: _Call, number: int) -> Progress:
    """Return how far the batch before has read; only the first batch of a process reads its file.

    It serves a guess only, so that a file that is not there means nothing.
    """
    known = _PROGRESS.get(call.query)
    if known is not None and known[0] == number - 1:
        return known[1]
    if number == 0:
        return {}
    try:
        return progress_in(call.read(f"offsets/{number - 1}"))
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
    young = planned_ms > max(made_ms, call.since_ms)
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


def _planned_ms(call: _Call, number: int, content: bytes) -> int:
    """Return when the batch was planned, by its file's time and by what is in it: the earlier one.

    0 where either does not say, and where it does not matter: after the first batch of a run.
    """
    if _SEEN.get(call.query, ("",))[0] == call.run_id:
        return 0
    return min(call.written_ms(f"offsets/{number}"), _noted_ms(content))


def _noted_ms(content: bytes) -> int:
    """Return when the driver planned the batch, by its own clock; 0 if the file does not say."""
    for line in content.decode("utf-8", "replace").splitlines()[1:2]:
        try:
            return int(json.loads(line)["batchTimestampMs"])
        except (ValueError, KeyError, TypeError):
            return 0
    return 0
