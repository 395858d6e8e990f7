"""What became of a committable, from what its coordinator says: pure, one rule per line.

A commit that is refused may have been carried out before; one that was never carried out may never
be. The coordinator's state tells the two apart as long as the id has not moved on, and only its
driver moves it on, once the batch is done (`pool.py`). It rests on three rules that are kept there:

- Under version 2 every end raises the epoch by one, and the next transaction begins under that one.
  So a commit or an abort under the next epoch is that of this transaction.
- Under version 1 an end keeps the epoch, and the broker's timeout raises it by one. The next
  transaction begins two epochs later, so that an abort under the next epoch is the timeout's.
- Under version 1 a late AddPartitionsToTxn opens an ended transaction again, under its own epoch.
  Each is asked only once; where no answer comes the attempt gives up.
"""

from enum import Enum, auto

from twophase.kafka.admin import TransactionDescription, TransactionState
from twophase.kafka.identity import Identity, TransactionVersion

_COMMITTED = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
_ABORTED = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)


class Fate(Enum):
    """What a look at the coordinator shows of one transaction."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()
    UNKNOWN = auto()


def fate_of(identity: Identity, seen: TransactionDescription | None) -> Fate:
    """Return what became of the identity's transaction, which was written to."""
    if seen is None or seen.producer_id != identity.producer_id:
        return Fate.UNKNOWN
    behind = seen.epoch - identity.epoch
    if seen.state is TransactionState.ONGOING:
        return Fate.OPEN if behind == 0 else Fate.UNKNOWN
    second = identity.version is TransactionVersion.V2
    if seen.state in _COMMITTED and behind == (1 if second else 0):
        return Fate.COMMITTED
    if seen.state in _ABORTED and behind in ((1,) if second else (0, 1)):
        return Fate.ABORTED
    return Fate.UNKNOWN
