"""The words of every refusal: what was found, what is at risk either way, how it is resolved.

Each text ends with the commands that resolve it, with the values that are known. A decision knows
neither the sink's name nor its topic, so these stand there as SINK_ID, RUN_ID and TOPIC; whoever
knows them calls `named`.
"""

import shlex
from typing import TYPE_CHECKING, Final

from twophase.commit.marker import Marker
from twophase.errors import (
    CheckpointBehind,
    MarkerMissing,
    MarkerUnreadable,
    OffsetsChanged,
    OwnedByAnother,
    RecoveryError,
)

if TYPE_CHECKING:
    from twophase.commit.naming import SinkName
    from twophase.commit.recovery import Batch

SINK_ID: Final = "SINK_ID"
RUN_ID: Final = "RUN_ID"
TOPIC: Final = "TOPIC"
# What a batch job's marker has in the place of a query's id.
RUN_OWNER: Final = "run"
# How the marker of a sink in task scope names its owner: the other scope must not go on from it.
TASK_SCOPE: Final = " (task scope)"


def marker_missing(batch: "Batch") -> RecoveryError:
    """Return the refusal of a batch that may be in the topic, where no marker tells."""
    return MarkerMissing(
        f"the marker of the sink is gone and batch {batch.number} may be in the topic or not: "
        "writing it could double its rows, skipping it could lose them"
        + _choice(batch, topic=f" --topic {TOPIC}")
    )


def marker_unreadable(batch: "Batch", why: str) -> RecoveryError:
    """Return the refusal of a batch where something else lies in the marker's place."""
    return MarkerUnreadable(
        f"the marker of the sink cannot be believed: {why}; so batch {batch.number} may be in the "
        "topic or not: writing it could double its rows, skipping it could lose them; find the "
        f"tool that writes to the sink's consumer group{_choice(batch)}"
    )


def owned_by_another(batch: "Batch", marker: Marker) -> RecoveryError:
    """Return the refusal of a query that is not the sink's owner."""
    return OwnedByAnother(
        f"the sink belongs to {marker.owner}, of which {last_batch(marker.batch)}; this is "
        f"{batch.owner} (without its checkpoint a query has a new id): two queries under one sink "
        "id would each take the other's batches for their own, and rows that both read from the "
        "source would be doubled; give this query a sink id of its own, or make sure that the "
        f"other is stopped for good and hand the sink over:\n  {_not_committed(batch)}"
    )


def checkpoint_behind(batch: "Batch", marker: Marker) -> RecoveryError:
    """Return the refusal of a batch before the last one in the topic."""
    return CheckpointBehind(
        f"batch {marker.batch} is in the topic already and the checkpoint is at {batch.number}: "
        "another driver of this query wrote it while this one started, or the checkpoint was "
        "rolled back or copied from an older one; make sure that only one driver runs and start "
        "again, or restore the newer checkpoint, then no row is lost or doubled; what the topic "
        "has is shown by\n"
        f"  twophase sinks show {_sink(batch)}\n"
        f"or, where the rows of batches {batch.number} to {marker.batch} may be doubled:\n"
        f"  {_not_committed(batch)}"
    )


def offsets_changed(batch: "Batch", marker: Marker) -> RecoveryError:
    """Return the refusal of a batch whose number stands for other rows now."""
    return OffsetsChanged(
        f"batch {batch.number} is in the topic with other source offsets than the checkpoint has "
        f"now (hash {marker.offsets or 'unknown'}, now {batch.offsets}): skipping it would lose "
        "rows, writing it would double rows; compare what the batch reads now with the topic, "
        "then run\n"
        "to skip it, so that rows which the topic lacks are lost:\n"
        f"  {_committed(batch)}\n"
        "to write it, so that rows which the topic has are doubled:\n"
        f"  {_not_committed(batch)}"
    )


def last_batch(number: int) -> str:
    """Return the words for what a marker says of the topic; -1 is that of a new sink."""
    return "no batch is in the topic" if number < 0 else f"batch {number} is the last in the topic"


def named(error: RecoveryError, name: "SinkName", marker_topic: str) -> RecoveryError:
    """Return the same refusal with the sink's name and topic in its commands."""
    message = error.message.replace(f"sinks adopt {SINK_ID}", f"sinks adopt {name.sink_id}")
    message = message.replace(f"sinks show {SINK_ID}", f"sinks show {name.sink_id}")
    message = message.replace(f" --topic {TOPIC}", f" --topic {marker_topic}")
    message = message.replace(f" --run {RUN_ID}", f" --run {name.run_id}" if name.run_id else "")
    return type(error)(message, **error.ids)


def _choice(batch: "Batch", topic: str = "") -> str:
    return (
        "; look into the topic for a row of the batch, then run\n"
        "if it is there (if it is not, the batch's rows are lost):\n"
        f"  {_committed(batch, topic)}\n"
        "if it is not (if it is, the batch's rows are doubled):\n"
        f"  {_not_committed(batch, topic)}"
    )


def _committed(batch: "Batch", topic: str = "") -> str:
    # A batch job reads no offsets that could change under its run id.
    offsets = "" if batch.owner == RUN_OWNER else f" --offsets {shlex.quote(batch.offsets)}"
    return f"{_adopt(batch, topic)} --committed {batch.number}{offsets}"


def _not_committed(batch: "Batch", topic: str = "") -> str:
    return f"{_adopt(batch, topic)} --not-committed {batch.number}"


def _adopt(batch: "Batch", topic: str) -> str:
    owner = "" if batch.owner == RUN_OWNER else f" --owner {shlex.quote(batch.owner)}"
    return f"twophase sinks adopt {_sink(batch)}{topic}{owner}"


def _sink(batch: "Batch") -> str:
    return f"{SINK_ID} --run {RUN_ID}" if batch.owner == RUN_OWNER else SINK_ID
