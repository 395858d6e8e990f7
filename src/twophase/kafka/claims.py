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

One case stays open under version 1: a rival that took over while nothing was open, and then aborted
a transaction of its own, looks like the broker's timeout. The older owner then takes the id back
and the rival is fenced. No row is lost or doubled by it, since whoever owns the id reads the marker
before it writes.
"""

from enum import Enum, auto

from twophase.commit.recovery import LastTransaction
from twophase.kafka.admin import TransactionDescription, TransactionState
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

    Under version 2 every end raises the epoch by one, under version 1 only the broker's timeout
    does; an epoch that is higher still belongs to somebody else.
    """
    if seen is None or seen.producer_id != identity.producer_id:
        return LastTransaction.UNKNOWN
    raised = seen.epoch - identity.epoch
    ended = 1 if identity.version is TransactionVersion.V2 else 0
    if seen.state in _COMMITTED and raised == ended:
        return LastTransaction.COMMITTED
    if seen.state in _ABORTED and raised in {ended, 1}:
        return LastTransaction.ABORTED
    if raised == 0 and seen.state is TransactionState.EMPTY:
        # InitProducerId gave us this epoch, and nothing was written under it since.
        return LastTransaction.ABORTED
    if raised == 0 and seen.state is TransactionState.ONGOING:
        return LastTransaction.OPEN
    return LastTransaction.UNKNOWN


def last_of(seen: TransactionDescription | None) -> LastTransaction:
    """Return how the last transaction of a transactional id ended, whoever it belonged to.

    EMPTY says only that somebody took the id since. Where it was taken as unfounded, nothing was
    ever committed under it (see `time_limit_ms`).
    """
    if seen is None:
        return LastTransaction.NEVER_WAS
    if seen.state is TransactionState.EMPTY and seen.timeout_ms % 2:
        return LastTransaction.NEVER_WAS
    if seen.state is TransactionState.ONGOING:
        return LastTransaction.OPEN
    if seen.state in _ABORTED:
        return LastTransaction.ABORTED
    return LastTransaction.COMMITTED if seen.state in _COMMITTED else LastTransaction.UNKNOWN


def time_limit_ms(configured_ms: int, *, founded: bool) -> int:
    """Return the transaction timeout to take an id with: even for a founded sink, else odd.

    Taking an id wipes out how its last transaction ended. A new sink that dies between taking its
    id and writing its first marker, twice, would look like one whose marker was deleted, and be
    refused. The timeout is the one thing that the coordinator keeps for us in that state; its last
    bit says whether anything can have been committed under the id.
    """
    even_ms = max(2, configured_ms - configured_ms % 2)
    return even_ms if founded else even_ms - 1
