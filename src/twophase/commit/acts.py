"""The effect that each transition hands out, filled from the machine's memory."""

from twophase.commit import effects
from twophase.commit.effects import Outcome
from twophase.commit.memory import Memory
from twophase.errors import ProtocolViolation


def peek_marker(_known: Memory) -> effects.PeekMarker:
    """Learn whether the id must be left alone."""
    return effects.PeekMarker()


def describe_last(_known: Memory) -> effects.DescribeLast:
    """Look before the id is taken."""
    return effects.DescribeLast()


def own(_known: Memory) -> effects.Own:
    """Take the id."""
    return effects.Own()


def reacquire(known: Memory) -> effects.Reacquire:
    """Go on under a fresh identity, if nobody else has taken the id."""
    return effects.Reacquire(known.identity)


def read_marker(_known: Memory) -> effects.ReadMarker:
    """Learn what is in the topic."""
    return effects.ReadMarker()


def read_back(_known: Memory) -> effects.ReadBack:
    """See whether the marker is as it was written."""
    return effects.ReadBack()


def execute_plan(_known: Memory) -> effects.ExecutePlan:
    """Let the state stores advance."""
    return effects.ExecutePlan()


def prepare(known: Memory) -> effects.Prepare:
    """Compute the blocks."""
    return effects.Prepare(known.prepares)


def send(known: Memory) -> effects.Send:
    """Send the blocks as they were checked."""
    if known.summary is None:
        raise ProtocolViolation("there is nothing to send")
    return effects.Send(known.identity, known.summary)


def write_marker(known: Memory) -> effects.WriteMarker:
    """Mark the batch in its own transaction."""
    if known.summary is None:
        raise ProtocolViolation("there is nothing to mark")
    batch, summary = known.batch, known.summary
    return effects.WriteMarker(
        known.identity, batch.owner, batch.number, batch.offsets, summary.rows, summary.bytes
    )


def write_first_marker(known: Memory) -> effects.WriteMarker:
    """Mark all before the batch; where its offsets are not known, by a hash that no batch has."""
    batch, before = known.batch, known.finished
    offsets = before.offsets if before and before.number == batch.number - 1 else ""
    return effects.WriteMarker(known.identity, batch.owner, batch.number - 1, offsets, 0, 0)


def commit(known: Memory) -> effects.Commit:
    """Ask once."""
    return effects.Commit(known.identity)


def finish_committed(known: Memory) -> effects.Finished:
    """Done by this call, and answered."""
    return effects.Finished(Outcome.COMMITTED, known.failures + 1, known.warnings)


def finish_committed_before(known: Memory) -> effects.Finished:
    """Done by this call, by a commit that was not answered."""
    return effects.Finished(Outcome.COMMITTED_BEFORE, known.failures, known.warnings)


def finish_skipped(known: Memory) -> effects.Finished:
    """Done by an earlier run."""
    return effects.Finished(Outcome.SKIPPED, 0, known.warnings)


def stop(known: Memory) -> effects.Raise:
    """Raise what is remembered as the error."""
    if known.error is None:
        raise ProtocolViolation("there is no error to raise")
    return effects.Raise(known.error)
