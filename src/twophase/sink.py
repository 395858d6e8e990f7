"""What a store and an engine must be able to do, and the loop that drives both through a batch.

The decisions are the pure machine's (`twophase.commit.machine`); the store performs what concerns
its transactions and the marker, the engine what concerns the rows. An effect that ends in an error
of its own is told to the machine as such, so that a doubt outlives the call.
"""

from dataclasses import replace
from typing import Any, Protocol

from twophase.commit.effects import (
    Commit,
    DescribeLast,
    Effect,
    ExecutePlan,
    Finished,
    Own,
    PeekMarker,
    Prepare,
    Raise,
    Reacquire,
    ReadBack,
    ReadMarker,
    Send,
    WriteMarker,
)
from twophase.commit.events import (
    BatchArrived,
    BlocksLost,
    CommitRefused,
    Committed,
    CommitUnknown,
    Event,
    FencedOff,
    Interrupted,
    LastTransactionSeen,
    MarkerFailed,
    MarkerPeeked,
    MarkerRead,
    MarkerUnread,
    MarkerWritten,
    Owned,
    PlanExecuted,
    Prepared,
    PrepareFailed,
    Reacquired,
    ReacquireFailed,
    SendFailed,
    Sent,
)
from twophase.commit.machine import Machine
from twophase.commit.marker import Marker, Unreadable
from twophase.commit.recovery import Batch, LastTransaction
from twophase.commit.summary import Summary
from twophase.errors import (
    CommitOutcomeUnknown,
    CommitRejected,
    Fenced,
    ProtocolViolation,
    StoreUnavailable,
    TwoPhaseError,
)
from twophase.watch import Watch


class BlocksGone(Exception):
    """The materialised blocks are lost, or are of two versions of the batch."""


class ReacquireStopped(Exception):
    """A re-acquire got only so far; it goes on from `identity`."""

    def __init__(self, error: Exception, last: LastTransaction, identity: object) -> None:
        super().__init__(str(error))
        self.error, self.last, self.identity = error, last, identity


class Store(Protocol):
    """One sink's transactions and marker."""

    def peek_marker(self) -> Marker | Unreadable | None:
        """Return the marker as it was committed last, whatever is open; wait for nothing."""

    def describe_last(self) -> LastTransaction:
        """Return how the id's last transaction ended, and change nothing."""

    def own(self) -> tuple[Any, LastTransaction]:
        """Take the id, end what is open; return the identity, and what of the look still holds."""

    def reacquire(self, identity: Any) -> tuple[Any, LastTransaction]:
        """Return a fresh identity and how the old one's transaction ended.

        `Fenced` after a rival; `ReacquireStopped` where the store could not be asked to the end.
        """

    def read_marker(self) -> Marker | Unreadable | None:
        """Return what lies in the marker's place."""

    def write_marker(self, identity: Any, effect: WriteMarker) -> Marker:
        """Put the marker into the transaction and return it."""

    def commit(self, identity: Any) -> Any | None:
        """Make the transaction visible; return the next identity where it comes along."""

    def judge(self, error: Exception, open_s: float) -> Exception:
        """Return what an error means that came while the transaction was open for `open_s`."""


class Engine(Protocol):
    """The rows of one batch."""

    def execute(self) -> None:
        """Execute the plan and write nothing."""

    def prepare(self, attempt: int) -> Summary:
        """Compute, materialise and check the blocks; `BlocksGone` if they are not whole."""

    def send(self, identity: Any, summary: Summary) -> Summary:
        """Send the blocks; return what was acknowledged; `BlocksGone` if some are lost."""

    def confirm(self) -> None:
        """Raise `CommitRejected` where what was acknowledged is known to be there no more."""


def write_batch(
    machine: Machine,
    run_id: str,
    batch: Batch,
    store: Store,
    engine: Engine,
    *,
    watch: Watch | None = None,
) -> Finished:
    """Bring one batch into the store exactly once, or raise why a person has to look."""
    watch = watch or Watch()
    effect = machine.handle(BatchArrived(run_id, batch))
    while not isinstance(effect, Finished | Raise):
        try:
            watch.begins(effect)
            event = _perform(effect, store, engine, watch)
            watch.ended(effect, event)
        except BaseException as error:  # noqa: BLE001 - the machine raises it, and keeps the doubt
            event = Interrupted(error)
        effect = machine.handle(event)
    if isinstance(effect, Raise):
        raise effect.error
    return effect


def _perform(  # noqa: C901, PLR0911 - a table
    effect: Effect, store: Store, engine: Engine, watch: Watch
) -> Event:
    match effect:
        case PeekMarker():
            return _peek_marker(store)
        case DescribeLast():
            return LastTransactionSeen(store.describe_last())
        case Own():
            return Owned(*store.own())
        case Reacquire(identity):
            return _reacquire(store, identity)
        case ReadMarker() | ReadBack():
            return _read_marker(store)
        case WriteMarker(identity):
            return _judged(store, watch, _write_marker(store, engine, identity, effect))
        case Commit(identity):
            return _judged(store, watch, _commit(store, identity))
        case ExecutePlan():
            engine.execute()
            return PlanExecuted()
        case Prepare(attempt):
            return _prepare(engine, attempt)
        case Send(identity, summary):
            return _judged(store, watch, _send(engine, identity, summary))
    raise ProtocolViolation(f"{effect} is no effect that a driver performs")


def _judged(store: Store, watch: Watch, event: Event) -> Event:
    """Let the store say what a failure means that came after the transaction was open so long."""
    if isinstance(event, SendFailed | MarkerFailed | CommitRefused):
        return replace(event, error=store.judge(event.error, watch.open_now_s))
    return event


def _reacquire(store: Store, identity: Any) -> Event:
    try:
        return Reacquired(*store.reacquire(identity))
    except Fenced as error:
        return FencedOff(error)
    except ReacquireStopped as stopped:
        return ReacquireFailed(stopped.error, stopped.last, stopped.identity)


def _peek_marker(store: Store) -> Event:
    try:
        return MarkerPeeked(store.peek_marker())
    except StoreUnavailable:
        # Whether the batch is refused is decided again once the id is taken.
        return MarkerPeeked(None)


def _read_marker(store: Store) -> Event:
    try:
        return MarkerRead(store.read_marker())
    except StoreUnavailable as error:
        return MarkerUnread(error)


def _write_marker(store: Store, engine: Engine, identity: Any, effect: WriteMarker) -> Event:
    try:
        marker = store.write_marker(identity, effect)
        # The last question before the commit.
        engine.confirm()
        return MarkerWritten(marker)
    except TwoPhaseError as error:
        return MarkerFailed(error)


def _commit(store: Store, identity: Any) -> Event:
    try:
        return Committed(store.commit(identity))
    except CommitOutcomeUnknown as error:
        return CommitUnknown(error)
    except (CommitRejected, StoreUnavailable) as error:
        return CommitRefused(error)


def _prepare(engine: Engine, attempt: int) -> Event:
    try:
        return Prepared(engine.prepare(attempt))
    except BlocksGone as error:
        return PrepareFailed(str(error))


def _send(engine: Engine, identity: Any, summary: Summary) -> Event:
    try:
        return Sent(engine.send(identity, summary))
    except BlocksGone as error:
        return BlocksLost(str(error))
    except TwoPhaseError as error:
        # Also what no second try makes better: the machine ends the transaction before it raises.
        return SendFailed(error)
