"""A streaming query as a pipeline runs it: started, looked at, stopped between two batches."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException

from twophase.errors import AccessDenied, ConfigurationError, TwoPhaseError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PREFIX: Final = re.compile(r"^\[STREAM_FAILED\].*?terminated with exception: ")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+$")
_TEXT_CHARS_MAX: Final = 600
# What Kafka's Java client says in Spark's source where no second try can help.
_REFUSED: Final = re.compile(
    r"(?P<kind>Topic|Group|SaslAuth)\w*(?:Authorization|entication)Exception: (?P<said>[^\n]+)"
)
_NAMED: Final = re.compile(r"Not authorized to access (?P<kind>topic|group)s?: \[?(?P<name>[^\]]+)")


@dataclass(frozen=True, slots=True)
class Look:
    """How far a query is: its last finished batch, and what Spark does now.

    `lag` is how many rows of Kafka the batch has left behind it, None where the source is another;
    `offsets` is where the batch ends in each source.
    """

    batch: int | None = None
    rows: int = 0
    rows_per_s: float = 0.0
    lag: int | None = None
    offsets: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""


def start_query(
    frame: "DataFrame",
    write: "Callable[[DataFrame, int], None]",
    *,
    name: str,
    checkpoint: str,
    mode: str,
    trigger: Mapping[str, Any],
) -> Any:
    """Start the query; a plan that cannot be a stream is a mistake of whoever wrote it."""
    writer = frame.writeStream.foreachBatch(write).queryName(name).outputMode(mode)
    writer = writer.option("checkpointLocation", checkpoint)
    if trigger:
        writer = writer.trigger(**trigger)
    try:
        return writer.start()
    except AnalysisException as error:
        raise ConfigurationError(f"Spark refuses the query: {first_line(error)}") from None


def look(query: Any) -> Look:
    """Return what Spark tells of the query now."""
    message = str(query.status.get("message", ""))
    progress = query.lastProgress
    if progress is None:
        return Look(message=message)
    told = json.loads(progress.json)
    return Look(
        batch=int(told["batchId"]),
        rows=int(told.get("numInputRows") or 0),
        rows_per_s=float(told.get("processedRowsPerSecond") or 0.0),
        lag=_lag(told.get("sources", [])),
        offsets=_offsets(told.get("sources", [])),
        message=message,
    )


def failure_of(query: Any) -> Exception | None:
    """Return what ended the query, in one line; None where it was stopped or is done."""
    found = query.exception()
    return None if found is None else RuntimeError(first_line(found))


def refusal_of(error: BaseException) -> AccessDenied | None:
    """Return what Kafka has refused to Spark's source, None where the error is another."""
    if isinstance(error, TwoPhaseError):
        return None
    java = getattr(error, "java_exception", None)
    refused = _REFUSED.search(str(java.toString() if java is not None else error))
    if refused is None:
        return None
    said = refused["said"].strip().rstrip(".")
    named = _NAMED.match(said)
    grant = f"; grant READ on {named['kind']} {named['name']!r}" if named else ""
    return AccessDenied(f"Kafka refuses Spark's source: {said}{grant}")


def first_line(error: BaseException) -> str:
    """Return an error without stacks and without what Spark puts around it."""
    java = getattr(error, "java_exception", None)
    said = str(java.toString() if java is not None else error).strip()
    line = said.splitlines()[0] if said else type(error).__name__
    return _STATE.sub("", _PREFIX.sub("", line))[:_TEXT_CHARS_MAX]


def _offsets(sources: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {str(each.get("description")): each.get("endOffset") for each in sources}


def _lag(sources: list[Mapping[str, Any]]) -> int | None:
    lags = [
        int(latest.get(topic, {}).get(partition, end)) - int(end)
        for each in sources
        if isinstance(latest := each.get("latestOffset"), dict)
        and isinstance(ends := each.get("endOffset"), dict)
        for topic, partitions in ends.items()
        if isinstance(partitions, dict)
        for partition, end in partitions.items()
    ]
    return sum(lags) if lags else None
