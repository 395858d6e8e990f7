"""How an identity may be claimed again, from what its coordinator says: pure, one rule per line.

InitProducerId with producer id and epoch is how an owner goes on after any doubt; the broker is to
answer PRODUCER_FENCED after a rival and to succeed otherwise. Seen on real brokers, it does not
always (tests/integration/kafka/test_reacquire.py):

- The broker compares the epoch only when no transaction is open. Asked while a rival's transaction
  is open, it aborts that transaction before it refuses; so the asker must look first.
- Kafka 3.9 refuses an owner whose own transaction is open, after aborting it; so it is aborted
  first, by EndTxn, which checks the epoch. A rival that opens a transaction between the look and
  the question still loses it; it then re-acquires, as after a timeout, and goes on.
- Kafka 3.9 refuses an owner whose transaction was aborted by the broker's timeout, because the
  timeout raises the epoch by one; so the raised epoch is asked with. The comparison still refuses
  where a rival has come since: at rest it raises the epoch by one more.

- Kafka 3.9 takes a second asker with the raised epoch for a repeat of the first and gives both the
  same identity; so an identity that was had that way is made unique by the bare form at once.

One case stays open under version 1: a rival that took over while nothing was open, and then aborted
a transaction of its own, looks like the broker's timeout. The older owner then takes the id back
and the rival is fenced. No row is lost or doubled by it, since whoever owns the id reads the marker
before it writes.
"""

from enum import Enum, auto

from twophase.commit.recovery import LastTransaction
from twophase.kafka.admin import TransactionDescription, TransactionState
from twophase.kafka.founding import unfounded
from twophase.kafka.identity import Identity, TransactionVersion

_ABORTED = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
_COMMITTED = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


class Claim(Enum):
    """What to do to claim an identity again."""

    ASK = auto()
    ABORT_THEN_ASK = auto()
    ASK_WITH_NEXT_EPOCH = auto()
    FENCED = auto()


def claim(identity: Identity, seen: TransactionDescription | None) -> Claim:
    """Return how `identity` may be claimed again when its coordinator says `seen`."""
    if seen is None:
        # The id expired: the broker makes it anew, and refuses where a rival did so before us.
        return Claim.ASK
    ours = (seen.producer_id, seen.epoch) == (identity.producer_id, identity.epoch)
    if seen.state is TransactionState.ONGOING:
        return Claim.ABORT_THEN_ASK if ours else Claim.FENCED
    if identity.version is TransactionVersion.V2:
        return Claim.ASK
    next_epoch = (identity.producer_id, identity.epoch + 1)
    if seen.state in _ABORTED and (seen.producer_id, seen.epoch) == next_epoch:
        return Claim.ASK_WITH_NEXT_EPOCH
    return Claim.ASK


def outcome_of(identity: Identity, seen: TransactionDescription | None) -> LastTransaction:
    """Return how the transaction of `identity` ended, if what its coordinator says shows it.

    Under version 2 every end raises the epoch by one, so an abort under the next epoch is ours.
    Under version 1 an abort proves nothing: a late AddPartitionsToTxn opens a transaction again
    after its commit, under the same epoch.
    """
    if seen is None or seen.producer_id != identity.producer_id:
        return LastTransaction.UNKNOWN
    second = identity.version is TransactionVersion.V2
    if seen.epoch != identity.epoch + (1 if second else 0):
        return LastTransaction.UNKNOWN
    if seen.state in _COMMITTED:
        return LastTransaction.COMMITTED
    return LastTransaction.ABORTED if second and seen.state in _ABORTED else LastTransaction.UNKNOWN


def last_of(seen: TransactionDescription | None) -> LastTransaction:
    """Return how the last transaction of a transactional id ended, by a look at it."""
    if seen is None or unfounded(seen):
        return LastTransaction.NEVER_WAS
    if seen.state is TransactionState.ONGOING:
        return LastTransaction.OPEN
    if seen.state in _ABORTED:
        return LastTransaction.ABORTED
    return LastTransaction.COMMITTED if seen.state in _COMMITTED else LastTransaction.UNKNOWN


def witnessed(seen: TransactionDescription | None, taken: Identity) -> LastTransaction:
    """Return what of a look is still certain once the id was taken.

    An older owner may have gone on in between. Only an identity that follows at once shows that it
    did not, and under version 1 a commit in between does not show at all.
    """
    if seen is None:
        return LastTransaction.NEVER_WAS if taken.epoch <= 1 else LastTransaction.UNKNOWN
    if (taken.producer_id, taken.epoch) != (seen.producer_id, seen.epoch + 1):
        return LastTransaction.UNKNOWN
    if unfounded(seen):
        return LastTransaction.NEVER_WAS
    if seen.state in _COMMITTED:
        return LastTransaction.COMMITTED
    second = taken.version is TransactionVersion.V2
    ended = seen.state is TransactionState.COMPLETE_ABORT
    return LastTransaction.ABORTED if second and ended else LastTransaction.UNKNOWN
