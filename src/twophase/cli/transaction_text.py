"""Transactions as people read them: lines that no terminal's width cuts."""

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from twophase.kafka.aborts import Aborted
    from twophase.kafka.holds import Hold
    from twophase.kafka.open_transactions import OpenTransaction

_BEING_ENDED = {
    "PrepareCommit": "its commit is decided and being written to its partitions",
    "PrepareAbort": "its abort is decided and being written to its partitions",
}


def open_text(seen: "OpenTransaction") -> list[Text]:
    """Return what is known of a transaction that has not ended."""
    age, timeout = _seconds(seen.age_ms), _seconds(seen.timeout_ms)
    lines = [
        f"{seen.transactional_id}: {seen.state}, {age} old, timeout {timeout}",
        f"  began {seen.started}, producer id {seen.producer_id}, epoch {seen.epoch}",
    ]
    if seen.state in _BEING_ENDED:
        lines.append(f"  {_BEING_ENDED[seen.state]}")
    elif seen.age_ms > seen.timeout_ms:
        lines.append("  older than its timeout: the broker aborts it at its next look")
    # Not markup: an id may hold brackets.
    return [Text(line) for line in (*lines, *(f"  {_hold(hold)}" for hold in seen.partitions))]


def _hold(hold: "Hold") -> str:
    place = f"{hold.topic}-{hold.partition}"
    if hold.last_stable_offset is None or hold.end_offset is None:
        return f"{place}: its leader tells nothing of it"
    if hold.holds is None:
        return (
            f"{place}: readers stop at offset {hold.last_stable_offset}, {hold.held_back} before "
            f"the end; whether because of this transaction is not known (READ on the topic tells)"
        )
    if hold.first_offset is None:
        return f"{place}: nothing is written there yet, and no reader held back"
    if hold.holds:
        return (
            f"{place}: holds readers back at offset {hold.last_stable_offset}, "
            f"{hold.held_back} records before the end"
        )
    return (
        f"{place}: begins at offset {hold.first_offset}; readers stop before it, at "
        f"{hold.last_stable_offset}, because of an older transaction"
    )


def done_text(done: "Aborted") -> Text:
    """Return what became of a transaction, in one line."""
    said = {
        "aborted": "aborted",
        "ended": "nothing done",
        "left": "left open",
        "unknown": "NOT KNOWN",
    }
    more = "; --force aborts it all the same" if done.outcome == "left" else ""
    return Text(f"{done.transactional_id}: {said[done.outcome]}: {done.why}{more}")


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s"
