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

from twophase.kafka.admin import TransactionDescription, TransactionState
from twophase.kafka.identity import Identity, TransactionVersion

_ABORTED = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)


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
