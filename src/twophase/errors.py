"""Every error this package raises, and what each asks of its caller.

TwoPhaseError                    base, never raised itself
  ConfigurationError             a setting is wrong; raised before any I/O
  SetupError                     this machine lacks something: Java, network, a port, disk space
  ProtocolViolation              a bug of this package; never caught
  StoreUnavailable               transient; nothing was decided, try again
  AccessDenied                   the store refuses this user; grant what the message names
  CommitError                    carries the transaction's ids
    CommitOutcomeUnknown         asked, no decisive answer; re-acquire and read the marker
    CommitRejected               the store decided against us
      Fenced                     a newer owner of the transactional id exists; stop
      EpochStale                 a rival, or the store's own timeout; re-acquire to learn which
      InvalidState               the transaction cannot go on: ended, expired, or to be aborted
      TransactionExpired         it was open for longer than its timeout; nothing is visible
      CommittableLost            decided, prepared, and gone: its rows are not in the store
  RecoveryError                  a person must decide; nothing was written
    MarkerMissing                the marker is gone just when it was needed
    MarkerUnreadable             what lies in its place is no marker
    OwnedByAnother               the sink id belongs to another query
    CheckpointBehind             the checkpoint is older than the topic
    OffsetsChanged               the batch's number stands for other rows now
    WrongBatch                   the sink was called twice for a batch, or past one that failed
    LogCorrupt                   a file of the decision log is not whole
    LogVersionUnsupported        a file of the decision log was written by a newer version
  RowRejected                    a row that no retry can write; names row, column, size, limit
    BlockRefused                 the broker will not have a block of rows; which of them, it may say

The class says what the caller must do now. `str(error)` begins with a stable code and ends with
every id the error carries, because Spark hands on only the text. `docs/errors.md` has one entry
per code.
"""

from typing import Any, ClassVar


class TwoPhaseError(Exception):
    """Base of every error raised on purpose; `code` is stable across releases."""

    code: ClassVar[str] = "TWOPHASE"

    def __init__(self, message: str, **ids: object) -> None:
        super().__init__(message)
        self.message = message
        self.ids = ids

    def __str__(self) -> str:
        ids = " ".join(f"{name}={value}" for name, value in self.ids.items() if value is not None)
        return f"{self.code}: {self.message}" + (f" [{ids}]" if ids else "")

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickling: an executor's error reaches the driver whole."""
        return _rebuild, (type(self), self.message, self.ids)


def _rebuild(kind: type[TwoPhaseError], message: str, ids: dict[str, object]) -> TwoPhaseError:
    return kind(message, **ids)


class ConfigurationError(TwoPhaseError):
    """A setting is wrong; names the key, the value found and what is allowed."""

    code = "TWOPHASE_CONFIGURATION"


class SetupError(TwoPhaseError):
    """This machine lacks something; says what to do about it."""

    code = "TWOPHASE_SETUP"


class ProtocolViolation(TwoPhaseError):
    """An invariant of this package is broken; never caught, always reported as a bug."""

    code = "TWOPHASE_PROTOCOL_VIOLATION"


class StoreUnavailable(TwoPhaseError):
    """The store could not be asked, or asked to come back later; nothing was decided."""

    code = "TWOPHASE_STORE_UNAVAILABLE"


class AccessDenied(TwoPhaseError):
    """The store refuses this user; names what to grant."""

    code = "TWOPHASE_ACCESS_DENIED"


class CommitError(TwoPhaseError):
    """Base of what can go wrong with a transaction; carries its ids."""

    code = "TWOPHASE_COMMIT"


class CommitOutcomeUnknown(CommitError):
    """The store was asked and did not answer decisively; only the marker can tell."""

    code = "TWOPHASE_COMMIT_OUTCOME_UNKNOWN"


class CommitRejected(CommitError):
    """The store decided against the request; asking again changes nothing."""

    code = "TWOPHASE_COMMIT_REJECTED"


class Fenced(CommitRejected):
    """A newer owner of the transactional id exists; this one must stop for good."""

    code = "TWOPHASE_FENCED"


class EpochStale(CommitRejected):
    """The epoch is not current: a rival, or the store's timeout; re-acquire to learn which."""

    code = "TWOPHASE_EPOCH_STALE"


class InvalidState(CommitRejected):
    """The transaction cannot go on: it has ended, expired, or can only be aborted."""

    code = "TWOPHASE_INVALID_STATE"


class TransactionExpired(CommitRejected):
    """The transaction was open for longer than its timeout, and the store has aborted it."""

    code = "TWOPHASE_TRANSACTION_EXPIRED"


class CommittableLost(CommitRejected):
    """A committable that was decided on is neither committed nor prepared any more."""

    code = "TWOPHASE_COMMITTABLE_LOST"


class RecoveryError(TwoPhaseError):
    """Base of what the sink cannot decide by itself; nothing was written."""

    code = "TWOPHASE_RECOVERY"


class MarkerMissing(RecoveryError):
    """The marker is gone just when it was needed; a person says whether the batch is there."""

    code = "TWOPHASE_MARKER_MISSING"


class MarkerUnreadable(RecoveryError):
    """What lies in the marker's place was not written by this package, or not whole."""

    code = "TWOPHASE_MARKER_UNREADABLE"


class OwnedByAnother(RecoveryError):
    """The sink id belongs to another query, or the checkpoint was deleted."""

    code = "TWOPHASE_OWNED_BY_ANOTHER"


class CheckpointBehind(RecoveryError):
    """The checkpoint is older than the topic."""

    code = "TWOPHASE_CHECKPOINT_BEHIND"


class OffsetsChanged(RecoveryError):
    """The batch in the topic has other source offsets than the checkpoint has now."""

    code = "TWOPHASE_OFFSETS_CHANGED"


class WrongBatch(RecoveryError):
    """The sink was called for a batch out of turn: twice, or after one whose error got lost."""

    code = "TWOPHASE_WRONG_BATCH"


class LogCorrupt(RecoveryError):
    """A file of the decision log is cut short, changed, or was not written by this package."""

    code = "TWOPHASE_LOG_CORRUPT"


class LogVersionUnsupported(RecoveryError):
    """A file of the decision log has a format that only a newer version of this package reads."""

    code = "TWOPHASE_LOG_VERSION_UNSUPPORTED"


class RowRejected(TwoPhaseError):
    """A row that no retry can write; names the row, the column, the size and the limit."""

    code = "TWOPHASE_ROW_REJECTED"


class BlockRefused(RowRejected):
    """The broker refuses a block for good because of a row in it."""

    code = "TWOPHASE_BLOCK_REFUSED"
