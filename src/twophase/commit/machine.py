"""The commit of one sink's batches, as a machine that does nothing itself: one table.

Theory of operation. A driver calls `handle` with what has happened and performs the one effect that
it is handed; the result of that is the next event. Nothing here does I/O, reads a clock or knows a
store, so every order of crashes, lost answers and rivals can be played through in a test.

One call for one batch takes this way:

    BatchArrived: PeekMarker, DescribeLast, Own, ReadMarker; then one of
      Prepare, Send, WriteMarker, Commit, ReadBack    the batch is not in the topic
      ExecutePlan                                     it is there already
      Raise                                           a person must decide

- **A run begins by owning the id**, which fences every older writer, and only then reads the
  marker: read before, an older writer could still commit after the reading. How the last
  transaction ended is asked before, because owning wipes it out; it is the second witness where the
  marker is gone.
- **A start that will be refused takes nothing**: a second query that was given the sink id by
  mistake must not stop the first. So the marker is peeked at before the id is taken. What is seen
  may be older than what is true; so it is used for a refusal only that no later marker of the sink
  turns around, and never says that a batch is written or is not. Where it says nothing, or is not
  to be had at once, the run begins all the same.
- **Within a run** the identity that came with the last commit is used at once. Where none came, the
  old one is re-acquired, and the marker read, as after every new identity.
- **A sink without a marker gets one first**, of the batch before, without rows. Otherwise a first
  batch that fails in the user's own computation would leave a used id without a marker, which no
  later run could tell from a marker that was deleted.
- **Nothing is open while the plan is computed**; from Send on something may be. From there every
  failure, and every doubt, goes one way: Reacquire, which ends what is open and is refused for good
  where a rival has come; then ReadMarker; then the decision anew. The kept blocks are sent again,
  or computed again where they are lost, a bounded number of times.
- **A commit once asked for is believed failed only on evidence**: a marker below the batch, or a
  store that shows the transaction aborted. It is believed done on evidence too: its own answer, its
  marker, or a store that shows it committed. Without evidence the machine refuses.
- **An error that reaches Spark ends the call, not the doubt**: what is not known about a batch
  stays in memory until the same run asks for the batch again (a user's own retry), or a new run
  begins, which starts from the marker. Another batch is refused meanwhile, since its predecessor
  would be lost without a word.
- **Fenced is for good**, until a new run takes the id as its owner.

A pair of state and event without a row is a bug of the driver: `ProtocolViolation`, and the state
stays as it was. Of several rows for a pair the first whose condition holds is taken; the last one
always holds.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Any, ClassVar, Final, NamedTuple

from twophase.commit import acts, events, memory, notes
from twophase.commit.effects import Effect
from twophase.commit.events import Event
from twophase.commit.memory import Limits, Memory, always
from twophase.errors import ProtocolViolation


class State(Enum):
    """Where the sink's driver is; the first four wait for a batch, the rest for an effect."""

    NEW = auto()
    READY = auto()
    FAILED = auto()
    FENCED = auto()
    PEEKING = auto()
    DESCRIBING = auto()
    OWNING = auto()
    REACQUIRING = auto()
    READING = auto()
    FOUNDING = auto()
    FOUNDING_COMMIT = auto()
    EXECUTING = auto()
    PREPARING = auto()
    SENDING = auto()
    MARKING = auto()
    COMMITTING = auto()
    CHECKING = auto()


NEW, READY, FAILED, FENCED = State.NEW, State.READY, State.FAILED, State.FENCED
PEEKING, DESCRIBING = State.PEEKING, State.DESCRIBING
OWNING, REACQUIRING = State.OWNING, State.REACQUIRING
READING, FOUNDING, FOUNDING_COMMIT = State.READING, State.FOUNDING, State.FOUNDING_COMMIT
EXECUTING, PREPARING, SENDING = State.EXECUTING, State.PREPARING, State.SENDING
MARKING, COMMITTING, CHECKING = State.MARKING, State.COMMITTING, State.CHECKING

RESTING: Final = frozenset({NEW, READY, FAILED, FENCED})


class Row(NamedTuple):
    """One transition: in `state`, after `event`, if `when`, remember, do `effect`, go to `then`."""

    state: State
    event: type[Any]
    when: Callable[[Memory, Any], bool]
    note: Callable[[Memory, Any], Memory]
    effect: Callable[[Memory], Effect]
    then: State


TABLE: Final[tuple[Row, ...]] = (
    # A run begins: leave the id alone if the batch is refused already; look, own, read, decide.
    Row(NEW, events.BatchArrived, always, notes.run_began, acts.peek_marker, PEEKING),
    Row(
        PEEKING,
        events.MarkerPeeked,
        memory.refused_already,
        notes.decision_refused,
        acts.stop,
        FAILED,
    ),
    Row(PEEKING, events.MarkerPeeked, always, notes.nothing_new, acts.describe_last, DESCRIBING),
    Row(DESCRIBING, events.LastTransactionSeen, always, notes.last_seen, acts.own, OWNING),
    Row(OWNING, events.Owned, always, notes.owned, acts.read_marker, READING),
    # The decision; after any failure and doubt it is made anew.
    Row(READING, events.MarkerRead, memory.refused, notes.decision_refused, acts.stop, FAILED),
    Row(
        READING,
        events.MarkerRead,
        memory.written_by_this_call,
        notes.found_written_by_us,
        acts.finish_committed_before,
        READY,
    ),
    Row(
        READING,
        events.MarkerRead,
        memory.written_before,
        notes.found_written,
        acts.execute_plan,
        EXECUTING,
    ),
    Row(READING, events.MarkerRead, memory.out_of_attempts, notes.settled, acts.stop, FAILED),
    Row(
        READING,
        events.MarkerRead,
        memory.without_marker,
        notes.founding,
        acts.write_first_marker,
        FOUNDING,
    ),
    Row(
        READING,
        events.MarkerRead,
        memory.not_prepared,
        notes.prepare_begins,
        acts.prepare,
        PREPARING,
    ),
    Row(READING, events.MarkerRead, memory.nothing_kept, notes.again, acts.write_marker, MARKING),
    Row(READING, events.MarkerRead, always, notes.again, acts.send, SENDING),
    Row(READING, events.MarkerUnread, always, notes.given_up, acts.stop, FAILED),
    Row(EXECUTING, events.PlanExecuted, always, notes.plan_executed, acts.finish_skipped, READY),
    # A sink without a marker gets one.
    Row(
        FOUNDING,
        events.MarkerWritten,
        always,
        notes.first_marker_written,
        acts.commit,
        FOUNDING_COMMIT,
    ),
    Row(FOUNDING, events.MarkerFailed, always, notes.failed, acts.reacquire, REACQUIRING),
    Row(
        FOUNDING_COMMIT,
        events.Committed,
        memory.next_identity_came,
        notes.founded_and_prepare_begins,
        acts.prepare,
        PREPARING,
    ),
    Row(FOUNDING_COMMIT, events.Committed, always, notes.founded, acts.reacquire, REACQUIRING),
    Row(FOUNDING_COMMIT, events.CommitRefused, always, notes.failed, acts.reacquire, REACQUIRING),
    Row(FOUNDING_COMMIT, events.CommitUnknown, always, notes.failed, acts.reacquire, REACQUIRING),
    # The batch: prepare, send, mark, commit, check.
    Row(PREPARING, events.Prepared, memory.no_rows, notes.prepared, acts.write_marker, MARKING),
    Row(PREPARING, events.Prepared, always, notes.prepared, acts.send, SENDING),
    Row(
        PREPARING,
        events.PrepareFailed,
        memory.prepares_left,
        notes.prepare_failed,
        acts.prepare,
        PREPARING,
    ),
    Row(PREPARING, events.PrepareFailed, always, notes.prepare_failed, acts.stop, FAILED),
    Row(
        SENDING, events.Sent, memory.acknowledged_all, notes.nothing_new, acts.write_marker, MARKING
    ),
    Row(SENDING, events.Sent, always, notes.acknowledged_otherwise, acts.reacquire, REACQUIRING),
    Row(SENDING, events.SendFailed, always, notes.failed, acts.reacquire, REACQUIRING),
    Row(SENDING, events.BlocksLost, always, notes.blocks_lost, acts.reacquire, REACQUIRING),
    Row(MARKING, events.MarkerWritten, always, notes.marker_written, acts.commit, COMMITTING),
    Row(MARKING, events.MarkerFailed, always, notes.failed, acts.reacquire, REACQUIRING),
    Row(COMMITTING, events.Committed, always, notes.committed, acts.read_back, CHECKING),
    Row(COMMITTING, events.CommitRefused, always, notes.failed, acts.reacquire, REACQUIRING),
    Row(COMMITTING, events.CommitUnknown, always, notes.failed, acts.reacquire, REACQUIRING),
    Row(CHECKING, events.MarkerRead, always, notes.read_back, acts.finish_committed, READY),
    Row(CHECKING, events.MarkerUnread, always, notes.not_read_back, acts.finish_committed, READY),
    # A fresh identity, or none ever again.
    Row(REACQUIRING, events.Reacquired, always, notes.reacquired, acts.read_marker, READING),
    Row(
        REACQUIRING,
        events.ReacquireFailed,
        memory.reacquires_left,
        notes.reacquire_failed,
        acts.reacquire,
        REACQUIRING,
    ),
    Row(REACQUIRING, events.ReacquireFailed, always, notes.reacquire_failed, acts.stop, FAILED),
    Row(REACQUIRING, events.FencedOff, always, notes.given_up, acts.stop, FENCED),
    # The next call: of the same run, or of a new one.
    *(
        Row(
            state,
            events.BatchArrived,
            memory.another_run,
            notes.run_began,
            acts.peek_marker,
            PEEKING,
        )
        for state in (READY, FAILED, FENCED)
    ),
    Row(READY, events.BatchArrived, memory.repeated, notes.repetition_refused, acts.stop, READY),
    Row(
        READY,
        events.BatchArrived,
        memory.identity_spent,
        notes.batch_began,
        acts.reacquire,
        REACQUIRING,
    ),
    Row(READY, events.BatchArrived, always, notes.prepare_begins_at_once, acts.prepare, PREPARING),
    Row(FAILED, events.BatchArrived, memory.another_batch, notes.gap_refused, acts.stop, FAILED),
    Row(
        FAILED, events.BatchArrived, memory.not_owned, notes.batch_began, acts.peek_marker, PEEKING
    ),
    Row(FAILED, events.BatchArrived, always, notes.batch_began, acts.reacquire, REACQUIRING),
    Row(FENCED, events.BatchArrived, always, notes.nothing_new, acts.stop, FENCED),
    # An effect that ended in an error of its own: raise it, and remember what is in doubt.
    *(
        Row(state, events.Interrupted, always, notes.given_up, acts.stop, FAILED)
        for state in State
        if state not in RESTING | {CHECKING}
    ),
    Row(CHECKING, events.Interrupted, always, notes.given_up_after_commit, acts.stop, FAILED),
)


class Machine:
    """One sink's driver: told what has happened, it says what to do next."""

    table: ClassVar[tuple[Row, ...]] = TABLE

    def __init__(self, limits: Limits | None = None) -> None:
        self._memory = Memory(limits=limits or Limits())
        self._state = NEW

    @property
    def state(self) -> State:
        """Where the driver is."""
        return self._state

    @property
    def identity(self) -> object | None:
        """The identity that the sink holds, if any."""
        return self._memory.identity

    def handle(self, event: Event) -> Effect:
        """Return the effect to perform now; raise `ProtocolViolation` and change nothing else."""
        for row in self.table:
            if (
                row.state is self._state
                and type(event) is row.event
                and row.when(self._memory, event)
            ):
                known = row.note(self._memory, event)
                effect = row.effect(known)
                self._memory, self._state = known, row.then
                return effect
        raise ProtocolViolation(f"{type(event).__name__} cannot happen while {self._state.name}")
