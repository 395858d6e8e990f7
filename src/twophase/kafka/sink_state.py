"""What the brokers know of one sink: its marker, its transactional id, what a start would do."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from twophase.commit.marker import Marker, Unreadable, read_marker
from twophase.commit.naming import SinkName
from twophase.commit.recovery import LastTransaction
from twophase.commit.refusals import RUN_OWNER, TASK_SCOPE
from twophase.errors import ConfigurationError, TwoPhaseError
from twophase.kafka.admin import TransactionDescription, TransactionState, describe_transaction
from twophase.kafka.claims import last_of
from twophase.kafka.fitness import RETENTION, broker_settings
from twophase.kafka.groups import group_exists, offsets_of_group
from twophase.kafka.identity import TopicPartition
from twophase.kafka.leaders import check_described, leaders_request
from twophase.kafka.wire import GROUP, Wire

READABLE, UNREADABLE, NONE = "readable", "unreadable", "none"


@dataclass(frozen=True, slots=True)
class MarkerState:
    """What lies in the marker's place; `why` says what is wrong with an unreadable one."""

    state: str
    topic: str | None = None
    owner: str | None = None
    batch: int | None = None
    offsets: str | None = None
    rows: int | None = None
    bytes: int | None = None
    time: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class IdState:
    """The transactional id as its coordinator sees it; `open_ms` is an open transaction's age."""

    state: str
    producer_id: int | None = None
    epoch: int | None = None
    open_ms: int | None = None
    open_partitions: tuple[str, ...] = ()
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SinkState:
    """One sink, or one run of a batch job; `name` is its transactional id and marker group.

    `marker_expires` is when the broker forgets the marker unless a later batch renews it; None
    where there is none, or the broker does not let its settings be read.
    """

    sink_id: str
    run_id: str | None
    name: str
    exists: bool
    marker: MarkerState
    transactional_id: IdState
    next_start: tuple[str, ...]
    marker_expires: str | None = None


def look(wire: Wire, name: SinkName, topic: str | None = None) -> SinkState:
    """Return what the brokers know of a sink, and change nothing.

    `topic` is where its marker lies; it is found without where there is only one place for it.
    Refuses where a marker may be there that this user cannot see.
    """
    seen = describe_transaction(wire, name.transactional_id)
    # A transaction that is being ended is waited for; one that is open may stay so for long.
    ending = seen is None or seen.state is not TransactionState.ONGOING
    marker = _marker_in(wire, name, topic, stable=ending)
    return SinkState(
        sink_id=name.sink_id,
        run_id=name.run_id,
        name=name.transactional_id,
        exists=seen is not None or marker.state != NONE,
        marker=marker,
        transactional_id=_id_state(seen, wire.clock.wall_ms()),
        next_start=_next_start(marker, seen),
        marker_expires=_expiry(wire, name, marker),
    )


def _expiry(wire: Wire, name: SinkName, marker: MarkerState) -> str | None:
    """Return when a group without members loses this offset: so long after it was committed."""
    if marker.time is None:
        return None
    settings = None
    with suppress(TwoPhaseError):
        settings = broker_settings(wire, wire.coordinator(GROUP, name.marker_group), [RETENTION])
    minutes = (settings or {}).get(RETENTION)
    if minutes is None:
        return None
    expires = datetime.fromisoformat(marker.time) + timedelta(minutes=int(minutes))
    return expires.isoformat(timespec="milliseconds")


def _marker_in(wire: Wire, name: SinkName, topic: str | None, *, stable: bool) -> MarkerState:
    group = offsets_of_group(wire, name.marker_group, stable=stable)
    found = {
        place: read_marker(committed.metadata, committed.offset)
        for place, committed in group.items()
        if place.partition == 0
    }
    place = _place_of(wire, found, name, topic)
    return MarkerState(NONE, topic) if place is None else _marker_state(place.topic, found[place])


def _place_of(
    wire: Wire,
    found: dict[TopicPartition, Marker | Unreadable],
    name: SinkName,
    topic: str | None,
) -> TopicPartition | None:
    if topic is not None:
        place = TopicPartition(topic, 0)
        if place in found:
            return place
        # A group's offsets in topics that may not be described are left out without a word.
        check_described(wire.ask_until_answered(lambda: leaders_request([topic])))
        return None
    places = [place for place, marker in found.items() if isinstance(marker, Marker)] or [*found]
    if len(places) > 1:
        topics = ", ".join(sorted(place.topic for place in places))
        raise ConfigurationError(
            f"the group {name.marker_group!r} has offsets in several topics ({topics}); "
            "say with --topic which one holds the sink's marker"
        )
    if not places and group_exists(wire, name.marker_group):
        # Hidden from this user, or deleted with its topic: not to be told apart from here.
        raise ConfigurationError(
            f"the group {name.marker_group!r} is there, and none of its offsets lies in a topic "
            "that this user may DESCRIBE, so whether the sink has a marker is not known; say with "
            "--topic which topic is the sink's topic or marker_topic (DESCRIBE on it is needed)"
        )
    return places[0] if places else None


def _marker_state(topic: str, marker: Marker | Unreadable) -> MarkerState:
    if isinstance(marker, Unreadable):
        return MarkerState(UNREADABLE, topic, why=marker.why)
    return MarkerState(
        READABLE,
        topic,
        owner=marker.owner,
        batch=marker.batch,
        offsets=marker.offsets,
        rows=marker.rows,
        bytes=marker.bytes,
        time=datetime.fromtimestamp(marker.time_ms / 1000, UTC).isoformat(timespec="milliseconds"),
    )


def _id_state(seen: TransactionDescription | None, now_ms: int) -> IdState:
    if seen is None:
        return IdState(NONE)
    is_open = seen.state is TransactionState.ONGOING
    return IdState(
        str(seen.state),
        seen.producer_id,
        seen.epoch,
        max(0, now_ms - seen.started_ms) if is_open else None,
        tuple(str(place) for place in sorted(seen.partitions)),
        seen.timeout_ms,
    )


def _next_start(marker: MarkerState, seen: TransactionDescription | None) -> tuple[str, ...]:
    said: list[str] = []
    if seen is not None and seen.state is TransactionState.ONGOING:
        start = "a start that is not refused" if marker.state == READABLE else "a start"
        said.append(f"{start} stops the driver that has a transaction open, and aborts it")
    if marker.state == READABLE:
        said += _with_marker(marker)
    elif marker.state == UNREADABLE:
        said.append("every query is refused (TWOPHASE_MARKER_UNREADABLE)")
    elif last_of(seen) is LastTransaction.NEVER_WAS:
        said.append("a query at batch 0 starts as with a new sink")
        said.append(
            "a query that runs a later batch again is refused (TWOPHASE_MARKER_MISSING); one that "
            "has just planned it writes it"
        )
    else:
        said.append("a query writes a batch that it has just planned")
        said.append(
            "a query that runs a batch again is refused (TWOPHASE_MARKER_MISSING), unless the "
            "broker shows that the last transaction was aborted"
        )
    return tuple(said)


def _with_marker(marker: MarkerState) -> list[str]:
    batch = marker.batch or 0
    if (marker.owner or "").endswith(TASK_SCOPE):
        return [
            f"query {marker.owner} goes on by its decision log",
            "every other query is refused (TWOPHASE_OWNED_BY_ANOTHER)",
        ]
    if marker.owner == RUN_OWNER:
        return ["the run writes its rows" if batch < 0 else "the run is done and writes nothing"]
    said = [f"query {marker.owner} goes on with batch {batch + 1}"]
    if marker.offsets:
        said.append(f"asked for batch {batch} again, it is skipped: it is in the topic")
    elif batch >= 0:
        said.append(f"asked for batch {batch} again, it is refused (TWOPHASE_OFFSETS_CHANGED)")
    if batch > 0:
        said.append(f"asked for a batch before {batch}, it is refused (TWOPHASE_CHECKPOINT_BEHIND)")
    said.append("every other query is refused (TWOPHASE_OWNED_BY_ANOTHER)")
    return said
