"""Abort exactly the transaction that was seen, unless a job is at work in it.

What can be known. A broker does not tell whether the process that opened a transaction lives: a
transaction by itself has no heartbeat. What it tells is what the process has done: the identity,
when the transaction began, which partitions joined it, and the sequence number up to which each
partition was written. Seen twice, with a while in between:

- Anything has moved: a job is at work.
- Nothing has moved: nobody has written for that long. A job that is dead looks so, and so does one
  that is paused, waits for a broker, or is cut off from the cluster. The two cannot be told apart.
- How far a partition was written may not be seen (READ on the topic): nothing is known.

A transaction of a batch-scope sink that was aborted under a live driver costs it a second send and
no row: the driver finds its identity gone, re-acquires it, reads the marker and sends the blocks
again. A transaction of anything else may be *prepared*, and its commit decided and noted elsewhere
(a task of task scope, Flink's sink); aborted, its rows are lost. So those are left alone unless
forced.

How it is ended. A live driver must learn of it before it writes anything more, so the epoch must be
raised with the abort, and its driver must not be fenced for good, so by one only.

- Version 2: EndTxn with the producer id and epoch that were seen raises it, and the coordinator
  refuses where another transaction has taken its place.
- Version 1: EndTxn does not raise it. A driver that was about to write its marker would then do so
  in a transaction of its own under the same epoch, and commit it: a marker without rows, all rows
  of the batch lost (seen, and pinned by tests/integration/kafka/test_open_transactions.py). So
  InitProducerId is asked, with producer id and epoch: the broker does what its timeout does. It
  compares no epoch while a transaction is open, so a look comes right before; a rival of the same
  producer id that opens a transaction in between loses it, and sends it again.

Never the bare form of InitProducerId, which would fence a live driver for good.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from twophase.commit.naming import SinkName
from twophase.errors import CommitOutcomeUnknown, EpochStale, InvalidState
from twophase.kafka.admin import TransactionDescription, TransactionState, describe_transaction
from twophase.kafka.holds import OFFSETS_TOPIC
from twophase.kafka.identity import Identity, TransactionVersion
from twophase.kafka.open_transactions import OpenTransaction, look_at
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire

_ABORTED: Final = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
_LOOK_S: Final = 5.0
_PAUSE_S: Final = 0.05


class Sight(StrEnum):
    """What two looks at a transaction say of the job behind it."""

    STILL = "still"
    MOVED = "moved"
    ENDED = "ended"
    UNSEEN = "unseen"
    FOREIGN = "foreign"


class Outcome(StrEnum):
    """What became of a transaction that was to be aborted."""

    ABORTED = "aborted"
    ENDED = "ended"
    LEFT = "left"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Aborted:
    """What was done about one transaction, and why."""

    transactional_id: str
    producer_id: int
    epoch: int
    outcome: Outcome
    why: str


_WHY: Final = {
    Sight.STILL: "nothing has moved in it while it was watched",
    Sight.MOVED: "a job is at work in it: it has moved while it was watched",
    Sight.ENDED: "it is no longer open",
    Sight.UNSEEN: (
        "it cannot be seen whether a job writes into it: that needs READ on its topics, and an "
        "answer from the leader of each partition"
    ),
    Sight.FOREIGN: (
        "it is not that of a batch-scope sink: it may be prepared, and its commit decided, so that "
        "an abort loses its rows"
    ),
}


def sight(before: OpenTransaction, after: OpenTransaction | None) -> Sight:
    """Return what two looks at a transaction say; anything that is not known is never `STILL`."""
    if after is None or not same(before, after):
        return Sight.ENDED
    if SinkName.read(before.transactional_id) is None:
        return Sight.FOREIGN
    then, now = _written(before), _written(after)
    if then != now:
        return Sight.MOVED
    # Brokers leave out partitions of topics that may not be described, and none is open over none.
    return Sight.UNSEEN if not now or None in now.values() else Sight.STILL


def same(before: OpenTransaction, after: OpenTransaction | None) -> bool:
    """Whether the transaction that was seen is still open."""
    if after is None or after.state != TransactionState.ONGOING:
        return False
    return _which(before) == _which(after)


def _which(seen: OpenTransaction) -> tuple[object, ...]:
    # Under version 1 other clients use one epoch for many transactions; the start tells them apart.
    return seen.producer_id, seen.epoch, seen.started


def _written(seen: OpenTransaction) -> dict[tuple[str, int], int | None]:
    return {
        (hold.topic, hold.partition): 0 if hold.topic == OFFSETS_TOPIC else hold.last_sequence
        for hold in seen.partitions
    }


def left(seen: OpenTransaction, found: Sight) -> Aborted:
    """Return that nothing was done about a transaction, and why."""
    outcome = Outcome.ENDED if found is Sight.ENDED else Outcome.LEFT
    return _done(seen, outcome, _WHY[found])


def abort(wire: Wire, seen: OpenTransaction, *, force: bool) -> Aborted:
    """Abort the transaction that was seen, after a last look; say what came of it."""
    now = look_at(wire, seen.transactional_id)
    found = sight(seen, now)
    if found is Sight.ENDED or not (force or found is Sight.STILL):
        return left(seen, found)
    identity = Identity(
        seen.transactional_id, seen.producer_id, seen.epoch, wire.transaction_version()
    )
    try:
        if identity.version is TransactionVersion.V2:
            Transactions(wire).abort(identity)
        else:
            Transactions(wire).expire(identity, timeout_ms=seen.timeout_ms)
    except (EpochStale, InvalidState, CommitOutcomeUnknown) as error:
        return _doubtful(wire, seen, error.message)
    return _aborted(wire, seen, "as forced" if force else _WHY[Sight.STILL])


def _aborted(wire: Wire, seen: OpenTransaction, why: str) -> Aborted:
    """Believe the abort where the coordinator shows it: the same producer id, the next epoch."""
    deadline_s = wire.clock.now_s() + _LOOK_S
    while True:
        now = describe_transaction(wire, seen.transactional_id)
        if now is not None and now.state in _ABORTED and _follows(seen, now):
            return _done(seen, Outcome.ABORTED, why)
        if wire.clock.now_s() >= deadline_s:
            return _doubtful(wire, seen, "the coordinator does not show it")
        if now is None or (now.producer_id, now.epoch) != (seen.producer_id, seen.epoch):
            return left(seen, Sight.ENDED)
        wire.clock.sleep(_PAUSE_S)


def _follows(seen: OpenTransaction, now: TransactionDescription) -> bool:
    # At the last epoch the broker goes on with another producer id.
    return (now.producer_id, now.epoch) == (seen.producer_id, seen.epoch + 1) or (
        now.producer_id != seen.producer_id and now.epoch == 0
    )


def _doubtful(wire: Wire, seen: OpenTransaction, said: str) -> Aborted:
    """Return what a look shows after an abort that was not answered with success."""
    if same(seen, look_at(wire, seen.transactional_id)):
        return _done(seen, Outcome.UNKNOWN, f"it was to be aborted and is still open: {said}")
    return left(seen, Sight.ENDED)


def _done(seen: OpenTransaction, outcome: Outcome, why: str) -> Aborted:
    return Aborted(seen.transactional_id, seen.producer_id, seen.epoch, outcome, why)
