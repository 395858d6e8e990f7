"""Sinks as people read them: lines that no terminal's width cuts."""

from typing import TYPE_CHECKING

from rich.text import Text

from twophase.commit.refusals import last_batch

if TYPE_CHECKING:
    from twophase.kafka.sink_list import ListedSink
    from twophase.kafka.sink_state import IdState, SinkState


def marker_text(state: "SinkState") -> str:
    """Return who owns a sink and what its last batch is, in one line."""
    marker = state.marker
    if marker.why is not None:
        return f"the marker in {marker.topic} is unreadable: {marker.why}"
    if marker.owner is None or marker.batch is None:
        if not state.exists:
            return "no such sink"
        return "no marker" + (f" in {marker.topic}" if marker.topic else "")
    return f"{marker.owner} owns {marker.topic}, {last_batch(marker.batch)}"


def state_text(state: "SinkState") -> list[Text]:
    """Return all that is known of a sink."""
    marker, held = state.marker, state.transactional_id
    rows = [("marker", marker_text(state))]
    if marker.owner is not None:
        expires = (
            f"{state.marker_expires}, unless a later batch renews it"
            if state.marker_expires
            else "not known: the broker does not let its settings be read"
        )
        rows += [
            ("written", _written(state)),
            ("expires", expires),
            ("offsets", marker.offsets or "unknown"),
        ]
    rows.append(("transactional id", f"{state.name}: {held.state}"))
    if held.producer_id is not None:
        timeout = f", timeout {(held.timeout_ms or 0) / 1000:.1f} s"
        rows.append(("identity", f"producer id {held.producer_id}, epoch {held.epoch}{timeout}"))
    if held.open_ms is not None:
        rows.append(("open", f"{_open(held)} over {', '.join(held.open_partitions)}"))
    rows += [("next start", said) for said in state.next_start]
    # Text and no table: nothing is cut to the terminal's width, and no bracket is taken for markup.
    return [Text(f"{what:<18}{said}") for what, said in rows]


def listed_text(listed: "ListedSink") -> list[Text]:
    """Return the main points about a sink of the list."""
    name = listed.sink_id + (f" --run {listed.run_id}" if listed.run_id is not None else "")
    state = listed.state
    if state is None:
        return [Text(name), Text(f"  not known: {listed.why}")]
    lines = [marker_text(state)]
    if state.marker.owner is not None:
        lines.append(f"written {_written(state)}")
    held = state.transactional_id
    lines.append(
        f"transactional id {held.state}"
        + (f", open {_open(held)}" if held.open_ms is not None else "")
    )
    return [Text(name), *(Text(f"  {line}") for line in lines)]


def _written(state: "SinkState") -> str:
    marker = state.marker
    return f"{marker.time}, {marker.rows} rows, {marker.bytes} bytes"


def _open(held: "IdState") -> str:
    return f"for {(held.open_ms or 0) / 1000:.1f} s"
