"""What the driver tells the machine: what has happened, in the past tense.

Identities are opaque here: whatever the store's driver hands in comes back with the next effect.
"""

from dataclasses import dataclass

from twophase.commit.marker import Marker, Unreadable
from twophase.commit.recovery import Batch, LastTransaction
from twophase.commit.summary import Summary


@dataclass(frozen=True, slots=True)
class BatchArrived:
    """Spark called the sink; `run_id` is new whenever the query starts, also in one process."""

    run_id: str
    batch: Batch


@dataclass(frozen=True, slots=True)
class MarkerPeeked:
    """The marker as it was committed last; None also where it was not to be had at once."""

    marker: Marker | Unreadable | None


@dataclass(frozen=True, slots=True)
class LastTransactionSeen:
    """How the id's last transaction had ended, asked before the id was taken."""

    last: LastTransaction


@dataclass(frozen=True, slots=True)
class Owned:
    """The id is ours: every older owner is fenced, and what it had open is ended.

    `last` takes the place of what was seen before: UNKNOWN where an older owner may have gone on
    between the look and the taking.
    """

    identity: object
    last: LastTransaction | None = None


@dataclass(frozen=True, slots=True)
class MarkerRead:
    """What lies in the marker's place, once no transaction that writes it is open."""

    marker: Marker | Unreadable | None


@dataclass(frozen=True, slots=True)
class MarkerUnread:
    """The marker could not be read."""

    error: Exception


@dataclass(frozen=True, slots=True)
class PlanExecuted:
    """The plan of a batch that is in the topic already was executed, and nothing written."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The blocks lie materialised and whole; `summary` says what they are."""

    summary: Summary


@dataclass(frozen=True, slots=True)
class PrepareFailed:
    """Blocks are missing, or of two versions of the batch; computing them again may help."""

    reason: str


@dataclass(frozen=True, slots=True)
class Sent:
    """Every sender has reported; `acknowledged` is what they say the broker has."""

    acknowledged: Summary


@dataclass(frozen=True, slots=True)
class SendFailed:
    """Sending failed; what has arrived is not known, and the blocks are still there."""

    error: Exception


@dataclass(frozen=True, slots=True)
class BlocksLost:
    """Sending failed because blocks are gone; what has arrived is not known."""

    reason: str


@dataclass(frozen=True, slots=True)
class MarkerWritten:
    """The marker is in the open transaction, exactly as given here."""

    marker: Marker


@dataclass(frozen=True, slots=True)
class MarkerFailed:
    """The marker is in the open transaction or not."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Committed:
    """The store has committed; the identity of the next transaction, where it came along."""

    next_identity: object | None


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """The store has decided against the commit."""

    error: Exception


@dataclass(frozen=True, slots=True)
class CommitUnknown:
    """The commit was asked for and not decisively answered: it took effect or did not."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Reacquired:
    """The id is still ours, under a fresh identity, and nothing is open.

    `last` is how the old identity's transaction ended, by what the store said before and while the
    fresh one was made: OPEN or ABORTED only where nothing can commit it any more, COMMITTED only
    where the store shows it committed, else UNKNOWN.
    """

    identity: object
    last: LastTransaction = LastTransaction.UNKNOWN


@dataclass(frozen=True, slots=True)
class ReacquireFailed:
    """The store could not be asked to the end; what it has said by then is not lost.

    `last` is ABORTED or COMMITTED where the store has said so. `identity` is the one to go on from
    where the old one was ended on the way: asked with the old one again, the store would take its
    owner for somebody who was fenced.
    """

    error: Exception
    last: LastTransaction = LastTransaction.UNKNOWN
    identity: object | None = None


@dataclass(frozen=True, slots=True)
class FencedOff:
    """A newer owner of the id exists."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The effect ended in an error that no other event tells of; it was carried out or not."""

    error: BaseException


Event = (
    BatchArrived
    | MarkerPeeked
    | LastTransactionSeen
    | Owned
    | MarkerRead
    | MarkerUnread
    | PlanExecuted
    | Prepared
    | PrepareFailed
    | Sent
    | SendFailed
    | BlocksLost
    | MarkerWritten
    | MarkerFailed
    | Committed
    | CommitRefused
    | CommitUnknown
    | Reacquired
    | ReacquireFailed
    | FencedOff
    | Interrupted
)
