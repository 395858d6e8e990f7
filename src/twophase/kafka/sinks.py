"""What a person decides about a sink: that a batch is in the topic or not, or to forget the sink.

A plan says what is there, what will be there and what is at risk; nothing is changed by making one.
Carrying it out takes the transactional id first, so that no driver can go on, and then looks again:
where the marker is not the one that the plan was made for, nothing is written.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from twophase.commit.effects import WriteMarker
from twophase.commit.naming import SinkName
from twophase.commit.refusals import last_batch
from twophase.errors import (
    CommitOutcomeUnknown,
    ConfigurationError,
    EpochStale,
    Fenced,
    InvalidState,
    StoreUnavailable,
)
from twophase.kafka.counts import ask_partition_counts
from twophase.kafka.founding import time_limit_ms
from twophase.kafka.groups import delete_group, group_exists, offsets_of_group
from twophase.kafka.identity import Identity
from twophase.kafka.sink_state import READABLE, SinkState, look
from twophase.kafka.store import KafkaStore
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire

_STOPPED = "a driver that runs now is stopped: its next request is refused (TWOPHASE_FENCED)"
_TAKEN = (
    "a driver has taken the sink while it was being {}; stop the query for good, then run the "
    "command again"
)


@dataclass(frozen=True, slots=True)
class Adoption:
    """Who goes on, and whether batch `number` is in the topic: with its offsets hash if it is."""

    owner: str
    number: int
    offsets: str | None

    @property
    def batch(self) -> int:
        """The last batch that is in the topic."""
        return self.number - (1 if self.offsets is None else 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is there, what will be there, and what a person must know before."""

    name: SinkName
    topic: str | None
    before: SinkState
    after: str
    risks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What was done; `reason` says why nothing was written, where that is so."""

    changed: bool
    before: SinkState
    after: SinkState
    reason: str | None = None


def plan_adopt(wire: Wire, name: SinkName, topic: str | None, adoption: Adoption) -> Plan:
    """Return what handing the sink to an owner at a batch means."""
    before = look(wire, name, topic)
    topic = topic or before.marker.topic
    if topic is None:
        raise ConfigurationError(
            f"the sink {name.sink_id!r} has no marker that says which topic is its own; "
            "give --topic with the sink's topic or marker_topic"
        )
    ask_partition_counts(wire, [topic])
    after = f"{adoption.owner} owns {topic}, {last_batch(adoption.batch)}"
    risks = (*_adopt_risks(before, adoption), *_elsewhere(wire, name, topic))
    return Plan(name, topic, before, after, risks)


def adopt(wire: Wire, plan: Plan, adoption: Adoption) -> Change:
    """Write the marker that lets the owner go on, and read it back."""
    if plan.topic is None:
        raise ConfigurationError("no topic is known for the sink's marker")
    # Without a look before, the id is taken as that of a sink that has rows: so says the person.
    store = KafkaStore(wire, plan.name, plan.topic)
    identity, _ = store.own()
    store.read_marker()  # The new marker takes over its offset.
    moved = _moved(wire, plan)
    if moved is not None:
        return moved
    try:
        _write(store, identity, adoption)
    except (EpochStale, InvalidState, Fenced) as error:
        raise Fenced(_TAKEN.format("adopted"), **error.ids) from error
    return Change(changed=True, before=plan.before, after=look(wire, plan.name, plan.topic))


def _write(store: KafkaStore, identity: Identity, adoption: Adoption) -> None:
    wanted = WriteMarker(identity, adoption.owner, adoption.batch, adoption.offsets or "", 0, 0)
    marker = store.write_marker(identity, wanted)
    try:
        store.commit(identity)
    except CommitOutcomeUnknown:
        if store.read_marker() != marker:
            raise
    found = store.read_marker()
    if found != marker:
        raise StoreUnavailable(
            f"the marker was written and is not there: found {found}; something else wrote to the "
            "marker's group; look with `twophase sinks show`",
            **identity.ids(),
        )


def plan_reset(wire: Wire, name: SinkName, topic: str | None) -> Plan:
    """Return what forgetting the sink means; refuse where there is nothing to forget."""
    before = look(wire, name, topic)
    if not before.exists:
        raise ConfigurationError(
            f"there is no sink {name.sink_id!r} here: neither a marker nor a transactional id "
            f"{name.transactional_id!r} exists; look for its id in the query"
        )
    after = "no marker; the next query starts as with a new sink"
    # The whole group goes, also a marker in another topic than was named.
    marked = group_exists(wire, name.marker_group)
    return Plan(name, topic, before, after, tuple(_reset_risks(before, marked=marked)))


def reset(wire: Wire, plan: Plan) -> Change:
    """Take the sink from everybody, delete its marker, and leave its id as that of a new sink."""
    transactions, limit_ms = Transactions(wire), wire.options.transaction_timeout_ms
    # Founded until the marker is gone: a reset that dies here must not look like a new sink.
    founded_ms = time_limit_ms(limit_ms, founded=True)
    identity = transactions.own(plan.name.transactional_id, timeout_ms=founded_ms)
    moved = _moved(wire, plan)
    if moved is not None:
        return moved
    delete_group(wire, plan.name.marker_group)
    new_ms = time_limit_ms(limit_ms, founded=False, epoch=identity.epoch + 1)
    try:
        # Never the bare form: a driver that came since may have written a marker of its own.
        transactions.reacquire(identity, timeout_ms=new_ms)
    except Fenced as error:
        raise Fenced(_TAKEN.format("reset"), **error.ids) from error
    return Change(changed=True, before=plan.before, after=look(wire, plan.name, plan.topic))


def _moved(wire: Wire, plan: Plan) -> Change | None:
    """Return that nothing was done, where a driver has moved the marker since the plan."""
    now = look(wire, plan.name, plan.topic)
    if now.marker == plan.before.marker:
        return None
    reason = (
        f"the marker was of batch {plan.before.marker.batch} when it was shown and is of batch "
        f"{now.marker.batch} now; the driver that wrote it is stopped, the marker is as it left it"
    )
    return Change(changed=False, before=plan.before, after=now, reason=reason)


def _adopt_risks(before: SinkState, adoption: Adoption) -> Iterator[str]:
    marker, number = before.marker, adoption.number
    if not before.exists:
        yield "NO SINK WITH THIS ID IS KNOWN HERE: make sure that the id and the cluster are right"
    if adoption.offsets is None:
        yield f"if batch {number} is in the topic, its rows are doubled: it is written again"
    else:
        yield f"if batch {number} is not in the topic, its rows are lost: it is skipped"
    if marker.state == READABLE and marker.owner != adoption.owner:
        yield (
            f"the sink is taken from {marker.owner}, which is refused from now on; rows that both "
            "queries read from their source are doubled"
        )
    elif marker.batch is not None and marker.batch > adoption.batch:
        yield (
            f"the marker says that batches up to {marker.batch} are in the topic: those after "
            f"{adoption.batch} are written again, and their rows are doubled"
        )
    elif marker.batch is not None and marker.batch + 1 < number:
        yield (
            f"by the marker batches {marker.batch + 1} to {number - 1} are not in the topic: if "
            "that is so, their rows are lost"
        )
    yield from _stopping(before)


def _elsewhere(wire: Wire, name: SinkName, topic: str) -> Iterator[str]:
    places = offsets_of_group(wire, name.marker_group, stable=False)
    others = sorted(place.topic for place in places if place.partition == 0)
    if others and topic not in others:
        yield (
            f"the sink's group has offsets in {', '.join(others)} and none in {topic}: a query "
            f"finds the new marker only where {topic} is its topic or marker_topic"
        )


def _reset_risks(before: SinkState, *, marked: bool) -> Iterator[str]:
    yield (
        "THE SINK FORGETS WHAT IT HAS WRITTEN: the next query under this id writes whatever Spark "
        "gives it, also rows which the topic has already"
    )
    if marked:
        yield "the marker cannot be brought back; the rows in the topic stay as they are"
    yield from _stopping(before)


def _stopping(before: SinkState) -> Iterator[str]:
    yield _STOPPED
    if before.transactional_id.open_ms is not None:
        yield (
            f"a transaction is open for {before.transactional_id.open_ms / 1000:.0f} s over "
            f"{len(before.transactional_id.open_partitions)} partitions; it is aborted, and none "
            "of its rows becomes visible"
        )
