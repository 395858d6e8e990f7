"""The machine: every state, every event, legal or refused."""

from dataclasses import replace

import pytest
from unit.commit.machine_paths import (
    ARRIVED,
    BATCH,
    BEFORE,
    ERROR,
    FENCED,
    FIRST,
    MARKER,
    NEXT,
    NO_ROWS,
    OTHER_ROWS,
    PATHS,
    ROWS,
    SAMPLES,
    machine_in,
    play,
)

from twophase.commit import effects as do
from twophase.commit import events as ev
from twophase.commit.machine import TABLE, Machine, State
from twophase.commit.marker import Unreadable
from twophase.commit.recovery import LastTransaction
from twophase.commit.transitions import transitions_markdown
from twophase.errors import CheckpointBehind, OwnedByAnother, ProtocolViolation, RecoveryError

S = State
WRITE = do.WriteMarker("id-1", "query", 7, "hash-7", 3, 30)
# What each legal event leads to, with the samples and paths of machine_paths.
LEGAL = {
    (S.NEW, ev.BatchArrived): (do.PeekMarker(), S.PEEKING),
    (S.PEEKING, ev.MarkerPeeked): (do.DescribeLast(), S.DESCRIBING),
    (S.DESCRIBING, ev.LastTransactionSeen): (do.Own(), S.OWNING),
    (S.OWNING, ev.Owned): (do.ReadMarker(), S.READING),
    (S.READING, ev.MarkerRead): (do.Prepare(1), S.PREPARING),
    (S.READING, ev.MarkerUnread): (do.Raise(ERROR), S.FAILED),
    (S.EXECUTING, ev.PlanExecuted): (do.Finished(do.Outcome.SKIPPED, 0, ()), S.READY),
    (S.FOUNDING, ev.MarkerFailed): (do.Reacquire("id-1"), S.REACQUIRING),
    (S.FOUNDING_COMMIT, ev.Committed): (do.Prepare(1), S.PREPARING),
    (S.FOUNDING_COMMIT, ev.CommitRefused): (do.Reacquire("id-1"), S.REACQUIRING),
    (S.FOUNDING_COMMIT, ev.CommitUnknown): (do.Reacquire("id-1"), S.REACQUIRING),
    (S.PREPARING, ev.Prepared): (do.Send("id-1", ROWS), S.SENDING),
    (S.PREPARING, ev.PrepareFailed): (do.Prepare(2), S.PREPARING),
    (S.SENDING, ev.Sent): (WRITE, S.MARKING),
    (S.SENDING, ev.SendFailed): (do.Reacquire("id-1"), S.REACQUIRING),
    (S.SENDING, ev.BlocksLost): (do.Reacquire("id-1"), S.REACQUIRING),
    (S.MARKING, ev.MarkerWritten): (do.Commit("id-1"), S.COMMITTING),
    (S.MARKING, ev.MarkerFailed): (do.Reacquire("id-1"), S.REACQUIRING),
    (S.COMMITTING, ev.Committed): (do.ReadBack(), S.CHECKING),
    (S.COMMITTING, ev.CommitRefused): (do.Reacquire("id-1"), S.REACQUIRING),
    (S.COMMITTING, ev.CommitUnknown): (do.Reacquire("id-1"), S.REACQUIRING),
    (S.REACQUIRING, ev.Reacquired): (do.ReadMarker(), S.READING),
    (S.REACQUIRING, ev.ReacquireFailed): (do.Reacquire("id-1"), S.REACQUIRING),
    (S.REACQUIRING, ev.FencedOff): (do.Raise(FENCED), S.FENCED),
    (S.FAILED, ev.BatchArrived): (do.Reacquire("id-1"), S.REACQUIRING),
    (S.FENCED, ev.BatchArrived): (do.Raise(FENCED), S.FENCED),
}
# Legal too, with an effect that a test of its own looks at.
SPECIAL = {
    (S.FOUNDING, ev.MarkerWritten),  # the sample is the marker of the batch, not of a new sink
    (S.CHECKING, ev.MarkerRead),
    (S.CHECKING, ev.MarkerUnread),
    (S.READY, ev.BatchArrived),
}
RESTING = {S.NEW, S.READY, S.FAILED, S.FENCED}


@pytest.mark.parametrize("event", SAMPLES.values(), ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("state", list(State), ids=lambda state: state.name)
def test_every_state_and_event(state, event):
    """Each pair has its one answer, or is refused and changes nothing."""
    machine = machine_in(state)
    assert machine.state is state
    pair = (state, type(event))
    if isinstance(event, ev.Interrupted) and state not in RESTING:
        assert machine.handle(event) == do.Raise(event.error)
        assert machine.state is S.FAILED
    elif pair in LEGAL:
        assert (machine.handle(event), machine.state) == LEGAL[pair]
    elif pair not in SPECIAL:
        before = machine._memory
        with pytest.raises(ProtocolViolation, match=f"cannot happen while {state.name}"):
            machine.handle(event)
        assert (machine.state, machine._memory) == (state, before)


def test_the_pairs_above_are_all_pairs_of_the_table():
    """No transition escapes the test of all pairs."""
    interrupted = {(state, ev.Interrupted) for state in State if state not in RESTING}
    assert {(row.state, row.event) for row in TABLE} == {*LEGAL, *SPECIAL, *interrupted}
    assert set(SAMPLES) == set(ev.Event.__args__)
    assert set(PATHS) == set(State)


def test_for_every_pair_the_last_row_always_holds():
    """No event can fall through the conditions of its pair."""
    last = {(row.state, row.event): row.when.__name__ for row in TABLE}
    assert set(last.values()) == {"always"}


def test_no_row_stands_behind_one_that_always_holds():
    """Every row can be reached."""
    done = set()
    for row in TABLE:
        assert (row.state, row.event) not in done
        if row.when.__name__ == "always":
            done.add((row.state, row.event))


def test_the_markdown_names_every_transition():
    """The documents' table has one line per row, with its state, event, effect and next state."""
    head, rule, *lines = transitions_markdown().splitlines()
    assert (head, rule) == ("| state | event | if | do | then |", "|---|---|---|---|---|")
    assert len(lines) == len(TABLE) == len(set(lines))
    effects = {kind.__name__ for kind in do.Effect.__args__}
    for row, line in zip(TABLE, lines, strict=True):
        state, event, _, effect, then = line.strip("| ").split(" | ")
        assert (state, event, then) == (row.state.name, row.event.__name__, row.then.name)
        assert effect in effects
    assert "| COMMITTING | CommitUnknown | always | Reacquire | REACQUIRING |" in lines


OTHERS = replace(MARKER, owner="another")
LATER = replace(MARKER, batch=8)
CHANGED = replace(MARKER, offsets="others")


@pytest.mark.parametrize("marker", [OTHERS, LATER, CHANGED], ids=["other's", "later", "changed"])
def test_a_start_that_the_marker_refuses_takes_nothing(marker):
    """The id is not even looked at; called again, it peeks again."""
    machine = machine_in(S.PEEKING)
    effect = machine.handle(ev.MarkerPeeked(marker))
    assert isinstance(effect.error, RecoveryError)
    assert (machine.state, machine.identity) == (S.FAILED, None)
    assert machine.handle(ARRIVED) == do.PeekMarker()


@pytest.mark.parametrize("found", [None, Unreadable("a tool wrote here"), BEFORE, MARKER])
def test_what_is_peeked_at_says_nothing_else(found):
    """Neither that the batch is written nor that it is not: the marker is read once more."""
    machine = machine_in(S.PEEKING)
    assert machine.handle(ev.MarkerPeeked(found)) == do.DescribeLast()
    last = (ev.LastTransactionSeen(LastTransaction.UNKNOWN), ev.Owned("id-1"))
    assert play(machine, *last) == do.ReadMarker()
    assert machine.handle(ev.MarkerRead(MARKER)) == do.ExecutePlan()


def test_a_marker_that_came_since_the_peek_decides():
    """Another query has founded the sink in between."""
    machine = machine_in(S.READING)
    assert isinstance(machine.handle(ev.MarkerRead(OTHERS)).error, OwnedByAnother)


def test_two_batches_of_one_run():
    """The second batch uses the identity that came with the first one's commit, at once."""
    machine = machine_in(S.READY)
    assert play(machine, ev.BatchArrived("run-1", NEXT)) == do.Prepare(1)
    assert play(machine, ev.Prepared(ROWS)) == do.Send("id-2", ROWS)


def test_without_a_next_identity_the_old_one_is_reacquired_and_the_marker_read():
    """Version 1: every identity is new, and after every new identity the marker decides."""
    machine = machine_in(S.COMMITTING)
    play(machine, ev.Committed(None), ev.MarkerRead(MARKER))
    assert play(machine, ev.BatchArrived("run-1", NEXT)) == do.Reacquire("id-1")
    assert play(machine, ev.Reacquired("id-2")) == do.ReadMarker()
    assert play(machine, ev.MarkerRead(MARKER)) == do.Prepare(1)
    assert play(machine, ev.Prepared(ROWS)) == do.Send("id-2", ROWS)


def test_a_batch_without_rows_is_marked_and_not_sent():
    """There is nothing to send, and the marker still says that the batch is done."""
    machine = machine_in(S.PREPARING)
    marker = do.WriteMarker("id-1", "query", 7, "hash-7", 0, 0)
    assert play(machine, ev.Prepared(NO_ROWS)) == marker
    again = (ev.MarkerFailed(ERROR), ev.Reacquired("id-2"), ev.MarkerRead(BEFORE))
    assert play(machine, *again) == do.WriteMarker("id-2", "query", 7, "hash-7", 0, 0)


@pytest.mark.parametrize("found", [MARKER, None, BEFORE, "unread"], ids=["same", "gone", "", "un"])
def test_the_marker_is_read_back(found):
    """The batch is finished in any case; a marker that is gone or another is told."""
    machine = machine_in(S.CHECKING)
    event = ev.MarkerUnread(ERROR) if found == "unread" else ev.MarkerRead(found)
    effect = machine.handle(event)
    assert (effect.outcome, effect.attempts) == (do.Outcome.COMMITTED, 1)
    assert bool(effect.warnings) == (found != MARKER)
    assert machine.state is S.READY


@pytest.mark.parametrize("state", [S.READY, S.FAILED, S.FENCED])
def test_another_run_begins_anew(state):
    """A restart with the same sink object owns the id and reads the marker."""
    machine = machine_in(state)
    assert play(machine, ev.BatchArrived("run-2", BATCH)) == do.PeekMarker()
    assert play(machine, *PATHS[S.READING][1:]) == do.ReadMarker()
    assert play(machine, ev.MarkerRead(MARKER)) == do.ExecutePlan()


def test_the_same_batch_twice_in_one_run_is_refused():
    """Two calls for two halves of a batch would have one marker: the second half would be lost."""
    machine = machine_in(S.READY)
    effect = machine.handle(ARRIVED)
    assert isinstance(effect.error, RecoveryError)
    assert "called twice" in str(effect.error)
    older = ev.BatchArrived("run-1", replace(BATCH, number=6))
    assert isinstance(machine.handle(older).error, CheckpointBehind)
    assert play(machine, ev.BatchArrived("run-1", NEXT)) == do.Prepare(1)


def test_a_batch_after_one_that_failed_is_refused():
    """A function that swallows the error would lose the batch without a word."""
    machine = machine_in(S.FAILED)
    for _ in range(2):
        effect = machine.handle(ev.BatchArrived("run-1", NEXT))
        assert "batch 7 failed in this run" in str(effect.error)
    assert machine.handle(ARRIVED) == do.Reacquire("id-1")


def test_a_run_that_failed_before_it_owned_looks_again():
    """There is no identity to re-acquire yet."""
    machine = machine_in(S.OWNING)
    play(machine, ev.Interrupted(ERROR))
    assert machine.handle(ARRIVED) == do.PeekMarker()


def test_a_sink_without_a_marker_gets_one():
    """Version 1 and 2: the marker of the batch before, without rows, and then the batch."""
    machine = machine_in(S.FOUNDING)
    assert machine.handle(ev.MarkerWritten(FIRST)) == do.Commit("id-1")
    assert machine.handle(ev.Committed("id-2")) == do.Prepare(1)
    machine = machine_in(S.FOUNDING_COMMIT)
    assert machine.handle(ev.Committed(None)) == do.Reacquire("id-1")
    assert play(machine, ev.Reacquired("id-2"), ev.MarkerRead(FIRST)) == do.Prepare(1)


def test_a_first_marker_that_vanishes_is_not_written_for_ever():
    """The batch is known not to be there; a second try would prove no more."""
    machine = machine_in(S.FOUNDING_COMMIT)
    play(machine, ev.Committed(None), ev.Reacquired("id-2"))
    assert machine.handle(ev.MarkerRead(None)) == do.Prepare(1)


@pytest.mark.parametrize("state", [S.FOUNDING, S.MARKING])
def test_a_marker_of_something_else_is_a_bug(state):
    """The driver wrote other values than it was told: nothing is committed."""
    machine = machine_in(state)
    with pytest.raises(ProtocolViolation, match="is not that of"):
        machine.handle(ev.MarkerWritten(BEFORE if state is S.MARKING else MARKER))
    assert machine.state is state


def test_other_blocks_than_were_checked_are_not_committed():
    """Counts or digests differ: the transaction is dropped and the blocks sent again."""
    machine = machine_in(S.SENDING)
    assert machine.handle(ev.Sent(OTHER_ROWS)) == do.Reacquire("id-1")
    again = play(machine, ev.Reacquired("id-2"), ev.MarkerRead(BEFORE))
    assert again == do.Send("id-2", ROWS)


def test_a_machine_knows_its_identity():
    """The one it holds, for whoever closes the sink."""
    assert Machine().identity is None
    assert machine_in(S.READY).identity == "id-2"
