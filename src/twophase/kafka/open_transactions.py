"""The transactions of a cluster that have not ended, and what they hold back."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from twophase.kafka.admin import (
    TransactionDescription,
    TransactionState,
    describe_transaction,
    list_transactions,
)
from twophase.kafka.holds import Hold, hold_of, tails
from twophase.kafka.wire import Wire

NOT_ENDED: Final = (
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
)

# Told how many transactions there are and that one more was looked at.
Told = Callable[[int], Callable[[], None]]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """One transaction that has not ended, as its coordinator and the partitions' leaders see it.

    `age_ms` is by this machine's clock and the coordinator's, which may differ.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    started: str
    age_ms: int
    timeout_ms: int
    partitions: tuple[Hold, ...]


def open_transactions(
    wire: Wire, belongs: Callable[[str], bool], told: Told = lambda _: lambda: None
) -> tuple[OpenTransaction, ...]:
    """Return every transaction that has not ended under the ids that belong, the oldest first.

    Only ids that the user may DESCRIBE: a broker leaves the others out without a word.
    """
    listed = [
        row.transactional_id
        for row in list_transactions(wire, states=NOT_ENDED)
        if belongs(row.transactional_id)
    ]
    advance, seen = told(len(listed)), []
    for transactional_id in listed:
        description = describe_transaction(wire, transactional_id)
        advance()
        if description is not None and description.state in NOT_ENDED:
            seen.append(description)
    return with_holds(wire, seen)


def look_at(wire: Wire, transactional_id: str) -> OpenTransaction | None:
    """Return the transaction under an id; None where it has ended or never was."""
    seen = describe_transaction(wire, transactional_id)
    if seen is None or seen.state not in NOT_ENDED:
        return None
    (found,) = with_holds(wire, [seen])
    return found


def with_holds(wire: Wire, seen: Iterable[TransactionDescription]) -> tuple[OpenTransaction, ...]:
    """Return the transactions with what their partitions' leaders tell, the oldest first."""
    seen = sorted(seen, key=lambda each: each.started_ms)
    ends = tails(wire, {place for each in seen for place in each.partitions})
    now_ms = wire.clock.wall_ms()
    return tuple(
        OpenTransaction(
            transactional_id=each.transactional_id,
            producer_id=each.producer_id,
            epoch=each.epoch,
            state=str(each.state),
            started=time_text(each.started_ms),
            age_ms=max(0, now_ms - each.started_ms),
            timeout_ms=each.timeout_ms,
            partitions=tuple(
                hold_of(place, each.producer_id, ends[place]) for place in sorted(each.partitions)
            ),
        )
        for each in seen
    )


def time_text(time_ms: int) -> str:
    """Return a moment as people and programs read it, in UTC."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
