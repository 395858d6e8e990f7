"""What each transition adds to the machine's memory."""

from dataclasses import replace
from typing import Any

from twophase.commit.events import (
    BatchArrived,
    BlocksLost,
    Committed,
    Interrupted,
    LastTransactionSeen,
    MarkerPeeked,
    MarkerRead,
    MarkerUnread,
    MarkerWritten,
    Owned,
    Prepared,
    PrepareFailed,
    Reacquired,
    ReacquireFailed,
    Sent,
)
from twophase.commit.marker import Marker
from twophase.commit.memory import Memory
from twophase.commit.recovery import LastTransaction
from twophase.errors import (
    CheckpointBehind,
    InvalidState,
    ProtocolViolation,
    RecoveryError,
    StoreUnavailable,
    WrongBatch,
)


def nothing_new(memory: Memory, _event: Any) -> Memory:
    """Remember nothing."""
    return memory


def run_began(memory: Memory, event: BatchArrived) -> Memory:
    """Forget the run before, and all that was certain only in it."""
    return Memory(limits=memory.limits, run_id=event.run_id, batch=event.batch)


def batch_began(memory: Memory, event: BatchArrived) -> Memory:
    """Begin a call; what is in doubt about the same batch from the call before stays so."""
    same = event.batch.number == memory.batch.number
    return Memory(
        limits=memory.limits,
        run_id=memory.run_id,
        batch=event.batch,
        identity=memory.identity,
        last=memory.last,
        settled=memory.settled,
        asked=memory.asked and same,
        doubtful=memory.doubtful,
        spent=memory.spent,
        finished=memory.finished,
    )


def repetition_refused(memory: Memory, event: BatchArrived) -> Memory:
    """Keep the error that says which batch this run has written."""
    number, written = event.batch.number, memory.finished.number if memory.finished else None
    if number == written:
        error: RecoveryError = WrongBatch(
            f"batch {number} was written by this run already: the sink was called twice for one "
            "batch, whose one marker stands for all of its rows; call it once, with all rows"
        )
    else:
        error = CheckpointBehind(f"this run has written batch {written}, and is asked for {number}")
    return replace(memory, error=error)


def gap_refused(memory: Memory, event: BatchArrived) -> Memory:
    """Keep the error that says which batch would be lost."""
    missing = memory.batch.number
    error = WrongBatch(
        f"batch {missing} failed in this run and was not written, and is followed by "
        f"{event.batch.number}: its error must reach Spark, or its rows would be lost"
    )
    return replace(memory, error=error)


def last_seen(memory: Memory, event: LastTransactionSeen) -> Memory:
    """Keep the second witness."""
    return replace(memory, last=event.last)


def owned(memory: Memory, event: Owned) -> Memory:
    """Hold the identity; nothing was written under it."""
    last = memory.last if event.last is None else event.last
    return replace(memory, identity=event.identity, doubtful=False, last=last)


def reacquired(memory: Memory, event: Reacquired) -> Memory:
    """Hold the fresh identity, and how the doubtful transaction ended."""
    last = event.last if memory.doubtful else memory.last
    return replace(
        memory, identity=event.identity, doubtful=False, spent=False, last=last, reacquires=0
    )


def reacquire_failed(memory: Memory, event: ReacquireFailed) -> Memory:
    """Count it; what the store has said by then may be gone when it is asked again."""
    identity = memory.identity if event.identity is None else event.identity
    reacquires = memory.reacquires + 1
    memory = replace(memory, error=event.error, identity=identity, reacquires=reacquires)
    if memory.doubtful and event.last in {LastTransaction.ABORTED, LastTransaction.COMMITTED}:
        return replace(memory, last=event.last, doubtful=False)
    return memory


def failed(memory: Memory, event: Any) -> Memory:
    """Count the attempt and keep its error; the identity is asked for again."""
    return replace(memory, error=event.error, failures=memory.failures + 1)


def blocks_lost(memory: Memory, event: BlocksLost) -> Memory:
    """Count the attempt; there is nothing left to send."""
    error = StoreUnavailable(f"blocks were lost before they were sent: {event.reason}")
    return replace(memory, error=error, failures=memory.failures + 1, summary=None)


def acknowledged_otherwise(memory: Memory, event: Sent) -> Memory:
    """Count the attempt: the transaction holds other blocks than were checked."""
    expected = memory.summary.partitions if memory.summary else ()
    found = event.acknowledged.partitions
    strange = sorted(set(expected) ^ set(found))[:4]
    error = InvalidState(f"what was acknowledged is not what was prepared, first in {strange}")
    return replace(memory, error=error, failures=memory.failures + 1)


def settled(memory: Memory, event: MarkerRead) -> Memory:
    """Know that the batch is not in the topic; say so where no marker could confirm it."""
    memory = replace(memory, settled=True, asked=False)
    if event.marker is None and memory.batch.number > 0 and not memory.warnings:
        return _warned(memory, f"no marker was found before batch {memory.batch.number}")
    return memory


def prepare_begins(memory: Memory, event: MarkerRead) -> Memory:
    """Compute the blocks of a batch that is certainly not in the topic."""
    return replace(settled(memory, event), prepares=memory.prepares + 1)


def prepare_begins_at_once(memory: Memory, event: BatchArrived) -> Memory:
    """Compute the blocks of a batch that follows one which this run has written."""
    return replace(batch_began(memory, event), prepares=1)


def prepare_failed(memory: Memory, event: PrepareFailed) -> Memory:
    """Keep the reason."""
    error = StoreUnavailable(f"the blocks of batch {memory.batch.number}: {event.reason}")
    return replace(memory, error=error, prepares=memory.prepares + 1)


def prepared(memory: Memory, event: Prepared) -> Memory:
    """Keep what the blocks are; from the next effect on something may be written."""
    return replace(memory, summary=event.summary, doubtful=True)


def again(memory: Memory, event: MarkerRead) -> Memory:
    """Send the kept blocks of a batch that is certainly not in the topic."""
    return replace(settled(memory, event), doubtful=True)


def founding(memory: Memory, event: MarkerRead) -> Memory:
    """Let a marker say that the batch is not in the topic."""
    return replace(settled(memory, event), doubtful=True)


def marker_written(memory: Memory, event: MarkerWritten) -> Memory:
    """Keep the marker; from the next effect on the batch may be in the topic."""
    summary = memory.summary
    if summary is None or not memory.holds(event.marker) or event.marker.rows != summary.rows:
        raise ProtocolViolation(f"the marker {event.marker} is not that of {memory.batch}")
    return replace(memory, written=event.marker, asked=True, last=LastTransaction.UNKNOWN)


def first_marker_written(memory: Memory, event: MarkerWritten) -> Memory:
    """Check the marker that a new sink begins with; it says nothing about the batch."""
    found = event.marker
    if (found.owner, found.batch, found.rows) != (memory.batch.owner, memory.batch.number - 1, 0):
        raise ProtocolViolation(f"the marker {found} is not that of a new sink at {memory.batch}")
    return memory


def committed(memory: Memory, event: Committed) -> Memory:
    """Know that the batch is in the topic; hold the next identity, or the spent one."""
    return replace(
        memory,
        identity=memory.identity if event.next_identity is None else event.next_identity,
        spent=event.next_identity is None,
        doubtful=False,
        asked=False,
        settled=True,
        finished=memory.batch,
    )


def founded(memory: Memory, event: Committed) -> Memory:
    """Know that the sink has a marker; the decision is not made by its absence again."""
    identity = memory.identity if event.next_identity is None else event.next_identity
    return replace(memory, identity=identity, doubtful=False, founded=True)


def founded_and_prepare_begins(memory: Memory, event: Committed) -> Memory:
    """Go on with the next identity."""
    return replace(founded(memory, event), prepares=memory.prepares + 1)


def found_written(memory: Memory, event: MarkerRead) -> Memory:
    """Warn where the batch is in the topic and its marker does not say so."""
    return memory if memory.holds(event.marker) else _warned(memory, _strange(event.marker))


def found_written_by_us(memory: Memory, event: MarkerRead) -> Memory:
    """Take the batch for done."""
    return plan_executed(found_written(memory, event), event)


def plan_executed(memory: Memory, _event: Any) -> Memory:
    """Take the batch for done: what follows it is not in the topic."""
    return replace(memory, finished=memory.batch, settled=True, asked=False)


def read_back(memory: Memory, event: MarkerRead) -> Memory:
    """Warn where the marker is not the one that was written."""
    if event.marker == memory.written:
        return memory
    return _warned(memory, _strange(event.marker))


def not_read_back(memory: Memory, event: MarkerUnread) -> Memory:
    """Warn that nobody knows whether the marker is there."""
    return _warned(memory, f"the marker could not be read back: {event.error}")


def given_up(memory: Memory, event: Interrupted) -> Memory:
    """Keep the error to raise."""
    return replace(memory, error=event.error)


def given_up_after_commit(memory: Memory, event: Interrupted) -> Memory:
    """Keep the error to raise, and for a second call that the batch is in the topic."""
    return replace(memory, error=event.error, asked=True, last=LastTransaction.COMMITTED)


def decision_refused(memory: Memory, event: MarkerRead | MarkerPeeked) -> Memory:
    """Keep the refusal to raise."""
    verdict = memory.verdict(event.marker)
    if not isinstance(verdict, RecoveryError):
        raise ProtocolViolation(f"{verdict} is not a refusal")
    return replace(memory, error=verdict)


def _warned(memory: Memory, text: str) -> Memory:
    return replace(memory, warnings=(*memory.warnings, text))


def _strange(marker: object) -> str:
    what = f"is of batch {marker.batch} of {marker.owner}" if isinstance(marker, Marker) else None
    if marker is None:
        what = "is gone"
    return (
        f"the batch is committed and its marker {what or 'is not readable'}: something else wrote "
        "to the marker's group; a restart now may be refused"
    )
