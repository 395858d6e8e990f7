"""What the machine remembers of its run and batch, and the questions its table asks of that."""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from twophase.commit.events import BatchArrived, Committed, MarkerPeeked, MarkerRead, Prepared, Sent
from twophase.commit.marker import Marker, Unreadable
from twophase.commit.recovery import Batch, Decision, LastTransaction, decide
from twophase.commit.summary import Summary
from twophase.errors import (
    AccessDenied,
    ConfigurationError,
    ProtocolViolation,
    RecoveryError,
    RowRejected,
    SetupError,
)

# No second try makes these better; the transaction is still ended before they are raised.
_HOPELESS: Final = (AccessDenied, ConfigurationError, ProtocolViolation, RowRejected, SetupError)
_NO_BATCH: Final = Batch("", -1, "", first_try=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """How often one call tries before it raises the last error."""

    attempts: int = 3
    prepares: int = 3
    reacquires: int = 3


@dataclass(frozen=True, slots=True)
class Memory:
    """All that the machine knows beside its state.

    `settled`: that the batch is not in the topic is certain, but for a commit that we asked for.
    `asked`: we asked for its commit, and nothing has told since how that ended.
    `doubtful`: something may have been written under `identity`, and its end was not witnessed.
    `spent`: the transaction of `identity` has ended, and no next identity came along.
    `founded`: this call has written the marker that a new sink begins with.
    `last`: how the last transaction that could hold the batch ended.
    """

    limits: Limits = field(default_factory=Limits)
    run_id: str | None = None
    batch: Batch = _NO_BATCH
    identity: object | None = None
    last: LastTransaction = LastTransaction.UNKNOWN
    settled: bool = False
    asked: bool = False
    doubtful: bool = False
    spent: bool = False
    founded: bool = False
    finished: Batch | None = None
    summary: Summary | None = None
    written: Marker | None = None
    prepares: int = 0
    failures: int = 0
    reacquires: int = 0
    error: BaseException | None = None
    warnings: tuple[str, ...] = ()

    def verdict(self, marker: Marker | Unreadable | None) -> Decision | RecoveryError:
        """Return what to do with the batch, from its marker and all that is known beside it."""
        if not self.asked:
            # Once decided, only our own commit could have brought the batch into the topic: a
            # rival's would have fenced us.
            known = replace(self.batch, first_try=self.batch.first_try or self.settled)
            return decide(known, marker, self.last)
        if self.last is LastTransaction.COMMITTED:
            # The store shows our own transaction committed; a marker that says otherwise was
            # tampered with.
            return Decision.SKIP
        known = replace(self.batch, first_try=False)
        if self.last is LastTransaction.NEVER_WAS:
            # It was, since we wrote into it; so the store has forgotten it.
            return decide(known, marker, LastTransaction.UNKNOWN)
        return decide(known, marker, self.last)

    def holds(self, marker: Marker | Unreadable | None) -> bool:
        """Whether the marker says that the batch is in the topic."""
        return (
            isinstance(marker, Marker)
            and (marker.owner, marker.batch) == (self.batch.owner, self.batch.number)
            and marker.offsets == self.batch.offsets
        )


def always(_memory: Memory, _event: Any) -> bool:
    """In any case."""
    return True


def another_run(memory: Memory, event: BatchArrived) -> bool:
    """Whether the query was started anew."""
    return event.run_id != memory.run_id


def repeated(memory: Memory, event: BatchArrived) -> bool:
    """Whether this run has written this batch or a later one."""
    return memory.finished is not None and event.batch.number <= memory.finished.number


def another_batch(memory: Memory, event: BatchArrived) -> bool:
    """Whether the batch before it was given up in this run."""
    return event.batch.number != memory.batch.number


def not_owned(memory: Memory, _event: BatchArrived) -> bool:
    """Whether the id was not taken yet."""
    return memory.identity is None


def refused(memory: Memory, event: MarkerRead | MarkerPeeked) -> bool:
    """Whether the decision is a refusal."""
    return isinstance(memory.verdict(event.marker), RecoveryError)


def refused_already(memory: Memory, event: MarkerPeeked) -> bool:
    """Whether a marker is there that refuses the batch, as every later one of the sink will.

    One that is missing or unreadable does not count: a commit under way may bring the next one.
    """
    return isinstance(event.marker, Marker) and refused(memory, event)


def written_by_this_call(memory: Memory, event: MarkerRead) -> bool:
    """Whether the batch is in the topic, and this call has executed its plan."""
    return memory.verdict(event.marker) is Decision.SKIP and memory.summary is not None


def written_before(memory: Memory, event: MarkerRead) -> bool:
    """Whether the batch is in the topic."""
    return memory.verdict(event.marker) is Decision.SKIP


def out_of_attempts(memory: Memory, _event: MarkerRead) -> bool:
    """Whether no attempt is left, or none can help."""
    return memory.failures >= memory.limits.attempts or isinstance(memory.error, _HOPELESS)


def without_marker(memory: Memory, event: MarkerRead) -> bool:
    """Whether the sink has no marker yet."""
    return event.marker is None and memory.summary is None and not memory.founded


def not_prepared(memory: Memory, _event: MarkerRead) -> bool:
    """Whether there are no blocks."""
    return memory.summary is None


def nothing_kept(memory: Memory, _event: MarkerRead) -> bool:
    """Whether the batch has no rows."""
    return memory.summary is not None and not memory.summary.partitions


def no_rows(_memory: Memory, event: Prepared) -> bool:
    """Whether the batch has no rows."""
    return not event.summary.partitions


def acknowledged_all(memory: Memory, event: Sent) -> bool:
    """Whether what was acknowledged is what was prepared."""
    return event.acknowledged == memory.summary


def prepares_left(memory: Memory, _event: Any) -> bool:
    """Whether the blocks may be computed again."""
    return memory.prepares < memory.limits.prepares


def reacquires_left(memory: Memory, _event: Any) -> bool:
    """Whether the store may be asked again."""
    return memory.reacquires + 1 < memory.limits.reacquires


def next_identity_came(_memory: Memory, event: Committed) -> bool:
    """Whether the commit brought the next identity along."""
    return event.next_identity is not None


def identity_spent(memory: Memory, _event: BatchArrived) -> bool:
    """Whether no next identity came with the last commit."""
    return memory.spent
