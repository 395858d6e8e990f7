"""Ways to bring a machine into each of its states, and one sample of each event."""

from dataclasses import replace

from twophase.commit import events as ev
from twophase.commit.machine import Machine, State
from twophase.commit.marker import Marker
from twophase.commit.recovery import Batch, LastTransaction
from twophase.commit.summary import PartitionSummary, Summary
from twophase.errors import Fenced, StoreUnavailable

BATCH = Batch("query", 7, "hash-7", first_try=False)
NEXT = Batch("query", 8, "hash-8", first_try=True)
MARKER = Marker("query", 7, "hash-7", 3, 30, 1_000, 42)
BEFORE = Marker("query", 6, "hash-6", 3, 30, 900, 39)
FIRST = Marker("query", 6, "", 0, 0, 900, 39)
ROWS = Summary((PartitionSummary("topic", 0, 1, 3, 30, "digest"),))
OTHER_ROWS = Summary((PartitionSummary("topic", 0, 1, 3, 30, "other"),))
NO_ROWS = Summary()
ERROR = StoreUnavailable("no answer")
FENCED = Fenced("a rival")

ARRIVED = ev.BatchArrived("run-1", BATCH)
SAMPLES = {
    type(event): event
    for event in (
        ARRIVED,
        ev.MarkerPeeked(BEFORE),
        ev.LastTransactionSeen(LastTransaction.COMMITTED),
        ev.Owned("id-1"),
        ev.MarkerRead(BEFORE),
        ev.MarkerUnread(ERROR),
        ev.PlanExecuted(),
        ev.Prepared(ROWS),
        ev.PrepareFailed("blocks are missing"),
        ev.Sent(ROWS),
        ev.SendFailed(ERROR),
        ev.BlocksLost("an executor is gone"),
        ev.MarkerWritten(MARKER),
        ev.MarkerFailed(ERROR),
        ev.Committed("id-2"),
        ev.CommitRefused(ERROR),
        ev.CommitUnknown(ERROR),
        ev.Reacquired("id-3"),
        ev.ReacquireFailed(ERROR),
        ev.FencedOff(FENCED),
        ev.Interrupted(KeyboardInterrupt()),
    )
}
_READING = (
    ARRIVED,
    ev.MarkerPeeked(BEFORE),
    ev.LastTransactionSeen(LastTransaction.COMMITTED),
    ev.Owned("id-1"),
)
_SENDING = (*_READING, ev.MarkerRead(BEFORE), ev.Prepared(ROWS))
_NEW_SINK = (
    ev.BatchArrived("run-1", replace(BATCH, first_try=True)),
    ev.MarkerPeeked(None),
    ev.LastTransactionSeen(LastTransaction.NEVER_WAS),
    ev.Owned("id-1"),
    ev.MarkerRead(None),
)
_COMMITTED = (*_SENDING, ev.Sent(ROWS), ev.MarkerWritten(MARKER), ev.Committed("id-2"))
PATHS = {
    State.NEW: (),
    State.PEEKING: _READING[:1],
    State.DESCRIBING: _READING[:2],
    State.OWNING: _READING[:3],
    State.READING: _READING,
    State.EXECUTING: (*_READING, ev.MarkerRead(MARKER)),
    State.FOUNDING: _NEW_SINK,
    State.FOUNDING_COMMIT: (*_NEW_SINK, ev.MarkerWritten(FIRST)),
    State.PREPARING: _SENDING[:-1],
    State.SENDING: _SENDING,
    State.MARKING: _COMMITTED[:-2],
    State.COMMITTING: _COMMITTED[:-1],
    State.CHECKING: _COMMITTED,
    State.REACQUIRING: (*_SENDING, ev.SendFailed(ERROR)),
    State.READY: (*_COMMITTED, ev.MarkerRead(MARKER)),
    State.FAILED: (*_SENDING, ev.Interrupted(ERROR)),
    State.FENCED: (*_SENDING, ev.SendFailed(ERROR), ev.FencedOff(FENCED)),
}


def machine_in(state):
    """Return a machine that was led into the state."""
    machine = Machine()
    play(machine, *PATHS[state])
    return machine


def play(machine, *events):
    """Feed the events and return the last effect."""
    effect = None
    for event in events:
        effect = machine.handle(event)
    return effect
