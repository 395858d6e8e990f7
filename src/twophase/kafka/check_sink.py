"""Who has the sink id already, and what is open on its topic."""

from collections.abc import Iterator, Sequence

from twophase.commit.naming import SinkName
from twophase.commit.refusals import TASK_SCOPE, last_batch
from twophase.errors import TwoPhaseError
from twophase.kafka.ends import end_offsets
from twophase.kafka.findings import Finding, error, ok, unknown, warning
from twophase.kafka.groups import offsets_of_group
from twophase.kafka.open_transactions import OpenTransaction, open_transactions
from twophase.kafka.sink_state import NONE, UNREADABLE, SinkState, look
from twophase.kafka.wire import Wire


def sink_findings(wire: Wire, name: SinkName, topic: str) -> Iterator[Finding]:
    """Yield whether the sink id is free or owned, and by whom."""
    state = look(wire, name, topic)
    if state.exists and state.marker.state == NONE:
        elsewhere = offsets_of_group(wire, name.marker_group, stable=False)
        if topics := sorted({place.topic for place in elsewhere if place.partition == 0}):
            yield _elsewhere(name, topic, ", ".join(topics))
            return
    yield owner_finding(state)


def _elsewhere(name: SinkName, topic: str, found: str) -> Finding:
    return error(
        f"sink id {name.sink_id}",
        f"its marker is in {found}, and not in {topic}",
        "a query finds its marker only in its topic or marker_topic; in another it would start as "
        "if there were none",
        f"give the marker_topic that the sink has, or another sink id for {topic}",
    )


def owner_finding(state: SinkState) -> Finding:
    """Return what a sink's marker and transactional id say to somebody who wants to start it."""
    point, marker = f"sink id {state.sink_id}", state.marker
    if not state.exists:
        return ok(point, "new: nobody has used it on this cluster")
    if marker.state == UNREADABLE:
        return error(
            point,
            f"its marker in {marker.topic} is unreadable: {marker.why}",
            "every query is refused",
            "find what wrote to the sink's group; then `twophase sinks adopt`",
        )
    if marker.state == NONE:
        return warning(
            point,
            "it has been used, and has no marker",
            "a query that runs a batch again may be refused",
            f"`twophase sinks show {state.sink_id}` says what a start would do",
        )
    if state.run_id is not None:
        return _run_finding(state)
    by_task = (marker.owner or "").endswith(TASK_SCOPE)
    if not by_task and (marker.batch is None or marker.owner is None or marker.batch < 0):
        return ok(point, f"{marker.owner} owns it and has written nothing yet")
    # In task scope what was written is in the query's decision log, and not in the marker.
    wrote = "started" if by_task else f"{last_batch(marker.batch or 0)}, written"
    return warning(
        point,
        f"{marker.owner} owns it, {wrote} {marker.time}",
        "any other query is refused; its owner goes on where it stopped",
        "take another sink id for another query; nothing to do for the owner's next start",
    )


def _run_finding(state: SinkState) -> Finding:
    point, marker = f"sink id {state.sink_id}, run {state.run_id}", state.marker
    if (marker.owner or "").endswith(TASK_SCOPE):
        return warning(
            point,
            f"it was started in task scope {marker.time}; whether it is done its decision log says",
            "a run that is done writes nothing when it is started again",
            "take another run id for other rows; nothing to do for the same run",
        )
    if marker.batch is None or marker.batch < 0:
        return ok(point, "it was started, and has written nothing yet")
    return warning(
        point,
        f"it is done: its rows were written {marker.time}",
        "a run that is done writes nothing when it is started again",
        "take another run id for other rows; nothing to do for the same run",
    )


def open_findings(wire: Wire, topics: Sequence[str]) -> Iterator[Finding]:
    """Yield what is open on the topics, whoever it belongs to."""
    found = open_transactions(wire, lambda _: True)
    for topic in topics:
        here = [each for each in found if any(hold.topic == topic for hold in each.partitions)]
        yield from (_open(topic, each) for each in here)
        if not here:
            yield _unlisted(wire, topic)


def _unlisted(wire: Wire, topic: str) -> Finding:
    """Return whether readers stand still all the same: brokers list only what a user may see."""
    point = f"open transactions on {topic}"
    try:
        # In this order: what is written meanwhile holds nobody back.
        ends = end_offsets(wire, topic)
        stable = end_offsets(wire, topic, committed=True)
    except TwoPhaseError as failure:
        said = f"none that this user may see; how far readers get is not known: {failure.message}"
        return unknown(point, said, "mend what is said, and check again")
    held = max(end - stable[partition] for partition, end in ends.items())
    if held > 0:
        return warning(
            point,
            "none that this user may see, and one is there",
            f"readers in read_committed are up to {held} records behind",
            "nothing, if its job is at work; else `twophase transactions list`, by somebody who "
            "may DESCRIBE all transactional ids",
        )
    return ok(point, "none: readers in read_committed get to the end of each partition")


def _open(topic: str, seen: OpenTransaction) -> Finding:
    told = [hold.held_back for hold in seen.partitions if hold.topic == topic]
    held = max((number for number in told if number is not None), default=None)
    return warning(
        f"open transactions on {topic}",
        f"{seen.transactional_id}, {seen.age_ms / 1000:.1f} s old, timeout "
        f"{seen.timeout_ms / 1000:.1f} s",
        "how far readers in read_committed are behind is not known"
        if held is None
        else f"readers in read_committed are up to {held} records behind",
        "nothing, if its job is at work; else `twophase transactions abort`",
    )
