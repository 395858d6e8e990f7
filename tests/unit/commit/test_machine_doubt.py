"""Failure and doubt: what is believed about a commit, on which evidence, and how often."""

from dataclasses import replace

import pytest
from unit.commit.machine_paths import (
    ARRIVED,
    BATCH,
    BEFORE,
    ERROR,
    FIRST,
    MARKER,
    NEXT,
    ROWS,
    machine_in,
    play,
)

from twophase.commit import effects as do
from twophase.commit import events as ev
from twophase.commit.machine import Machine, State
from twophase.commit.marker import Marker, Unreadable
from twophase.commit.recovery import LastTransaction
from twophase.errors import MarkerMissing, MarkerUnreadable, OwnedByAnother, RowRejected

S = State
Last = LastTransaction
UNKNOWN = ev.CommitUnknown(ERROR)
SECOND = do.Send("id-2", ROWS)
ANOTHER = Marker("another", 3, "hash", 1, 1, 1, 1)


def decided(last, marker, *, first_try=False, before=BEFORE):
    """What follows a commit of unknown outcome, by the store's witness and the marker."""
    machine = Machine()
    play(
        machine,
        ev.BatchArrived("run-1", replace(BATCH, first_try=first_try)),
        ev.MarkerPeeked(before),
        ev.LastTransactionSeen(Last.COMMITTED),
        ev.Owned("id-1"),
        ev.MarkerRead(before),
        *([] if before else [ev.MarkerWritten(FIRST), ev.Committed("id-1")]),
        ev.Prepared(ROWS),
        ev.Sent(ROWS),
        ev.MarkerWritten(MARKER),
        UNKNOWN,
        ev.Reacquired("id-2", last),
    )
    return machine, machine.handle(ev.MarkerRead(marker))


@pytest.mark.parametrize("last", [Last.UNKNOWN, Last.COMMITTED])
def test_its_own_marker_tells_that_an_unknown_commit_took_effect(last):
    """Finished, without executing the plan again."""
    machine, effect = decided(last, MARKER)
    assert effect == do.Finished(do.Outcome.COMMITTED_BEFORE, 1, ())
    assert machine.handle(ev.BatchArrived("run-1", NEXT)) == do.Prepare(1)


@pytest.mark.parametrize("last", [last for last in Last if last is not Last.COMMITTED])
def test_an_older_marker_tells_that_it_did_not(last):
    """The kept blocks are sent again, under the fresh identity."""
    assert decided(last, BEFORE)[1] == SECOND


@pytest.mark.parametrize("marker", [None, BEFORE, ANOTHER, Unreadable("it is not JSON")])
def test_a_store_that_shows_the_commit_is_believed(marker):
    """Whatever somebody did to the marker meanwhile; and it is told."""
    _, effect = decided(Last.COMMITTED, marker)
    assert effect.outcome is do.Outcome.COMMITTED_BEFORE
    assert effect.warnings


@pytest.mark.parametrize("first_try", [True, False])
@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (Last.OPEN, do.Send),
        (Last.ABORTED, do.Send),
        (Last.UNKNOWN, MarkerMissing),
        # We wrote into it: it can only have been forgotten.
        (Last.NEVER_WAS, MarkerMissing),
    ],
)
def test_without_a_marker_only_the_store_can_tell(last, expected, first_try):
    """That this run made offsets/N says nothing any more: this run asked for the commit."""
    _, effect = decided(last, None, first_try=first_try)
    assert type(effect) is expected or type(effect.error) is expected


@pytest.mark.parametrize(
    ("marker", "expected"),
    [(ANOTHER, OwnedByAnother), (Unreadable("it is not JSON"), MarkerUnreadable)],
)
def test_a_strange_marker_is_refused_in_doubt(marker, expected):
    """Nothing is guessed."""
    assert isinstance(decided(Last.UNKNOWN, marker)[1].error, expected)


def test_without_a_commit_asked_for_the_decision_stands():
    """A send that failed cannot have committed, whatever became of the marker meanwhile."""
    machine = machine_in(S.REACQUIRING)
    assert play(machine, ev.Reacquired("id-2"), ev.MarkerRead(None)) == SECOND


def test_a_witness_seen_before_the_store_went_away_is_kept():
    """Re-acquiring wipes out what it saw; when its answer is lost, the second look sees nothing."""
    machine = machine_in(S.COMMITTING)
    play(machine, UNKNOWN, ev.ReacquireFailed(ERROR, Last.COMMITTED))
    effect = play(machine, ev.Reacquired("id-2", Last.UNKNOWN), ev.MarkerRead(None))
    assert effect.outcome is do.Outcome.COMMITTED_BEFORE


def test_a_reacquire_that_got_halfway_goes_on_from_there():
    """The old identity was ended on the way; asked with it again the store would say fenced."""
    machine = machine_in(S.REACQUIRING)
    halfway = ev.ReacquireFailed(ERROR, identity="id-1-ended")
    assert machine.handle(halfway) == do.Reacquire("id-1-ended")
    assert machine.handle(ev.ReacquireFailed(ERROR)) == do.Reacquire("id-1-ended")


def test_an_open_transaction_seen_by_a_failed_reacquire_proves_nothing():
    """A late commit may have ended it between the look and the failure."""
    machine = machine_in(S.COMMITTING)
    play(machine, UNKNOWN, ev.ReacquireFailed(ERROR, Last.OPEN))
    effect = play(machine, ev.Reacquired("id-2", Last.UNKNOWN), ev.MarkerRead(None))
    assert isinstance(effect.error, MarkerMissing)


@pytest.mark.parametrize(
    ("revised", "expected"), [(None, do.WriteMarker), (Last.UNKNOWN, do.Raise)]
)
def test_a_witness_may_be_withdrawn_when_the_id_is_taken(revised, expected):
    """The store showed an abort, and then an older owner may have gone on and committed."""
    machine = Machine()
    looked = (ev.MarkerPeeked(None), ev.LastTransactionSeen(Last.ABORTED))
    play(machine, ARRIVED, *looked, ev.Owned("id-1", revised))
    assert isinstance(machine.handle(ev.MarkerRead(None)), expected)


def test_doubt_outlives_the_call():
    """A user's own retry in the same run: the unknown commit is not forgotten."""
    machine = machine_in(S.COMMITTING)
    play(machine, ev.Interrupted(ERROR))
    again = ev.BatchArrived("run-1", replace(BATCH, first_try=True))
    assert machine.handle(again) == do.Reacquire("id-1")
    assert isinstance(
        play(machine, ev.Reacquired("id-2"), ev.MarkerRead(None)).error, MarkerMissing
    )
    assert machine.handle(again) == do.Reacquire("id-2")
    assert play(machine, ev.Reacquired("id-3"), ev.MarkerRead(MARKER)) == do.ExecutePlan()


def test_an_interrupt_after_the_commit_does_not_undo_it():
    """A user's own retry finds the batch written, also without its marker."""
    machine = machine_in(S.CHECKING)
    play(machine, ev.Interrupted(ERROR))
    assert machine.handle(ARRIVED) == do.Reacquire("id-2")
    assert play(machine, ev.Reacquired("id-3"), ev.MarkerRead(None)) == do.ExecutePlan()
    assert machine.handle(ev.PlanExecuted()).outcome is do.Outcome.SKIPPED


def test_a_batch_found_written_is_not_forgotten_by_a_failing_plan():
    """The store showed the commit, the marker is gone, the plan failed: still not written twice."""
    machine = machine_in(S.COMMITTING)
    play(machine, ev.Interrupted(ERROR), ARRIVED, ev.Reacquired("id-2", Last.COMMITTED))
    assert machine.handle(ev.MarkerRead(None)) == do.ExecutePlan()
    play(machine, ev.Interrupted(ERROR), ARRIVED, ev.Reacquired("id-3", Last.NEVER_WAS))
    assert machine.handle(ev.MarkerRead(None)) == do.ExecutePlan()
    assert machine.handle(ev.PlanExecuted()).outcome is do.Outcome.SKIPPED


def test_once_a_commit_is_known_to_have_failed_the_next_failure_is_no_doubt():
    """The second attempt did not get to its commit."""
    machine, _ = decided(Last.ABORTED, None)
    play(machine, ev.SendFailed(ERROR), ev.Reacquired("id-3", Last.UNKNOWN))
    assert machine.handle(ev.MarkerRead(None)) == do.Send("id-3", ROWS)


def test_attempts_are_bounded():
    """The third failure is raised, with the transaction ended and the marker read before."""
    machine = machine_in(S.SENDING)
    for attempt in (2, 3):
        play(machine, ev.SendFailed(ERROR), ev.Reacquired(f"id-{attempt}"))
        assert machine.handle(ev.MarkerRead(BEFORE)) == do.Send(f"id-{attempt}", ROWS)
    play(machine, ev.SendFailed(ERROR), ev.Reacquired("id-4"))
    assert machine.handle(ev.MarkerRead(BEFORE)) == do.Raise(ERROR)
    assert machine.state is S.FAILED


def test_the_attempts_are_told():
    """The second attempt succeeded."""
    machine = machine_in(S.REACQUIRING)
    play(machine, ev.Reacquired("id-2"), ev.MarkerRead(BEFORE), ev.Sent(ROWS))
    effect = play(machine, ev.MarkerWritten(MARKER), ev.Committed("id-3"), ev.MarkerRead(MARKER))
    assert effect == do.Finished(do.Outcome.COMMITTED, 2, ())


def test_the_last_attempt_may_have_committed():
    """Out of attempts is no reason to disbelieve the marker."""
    machine = machine_in(S.SENDING)
    for attempt in (2, 3):
        play(machine, ev.SendFailed(ERROR), ev.Reacquired(f"id-{attempt}"), ev.MarkerRead(BEFORE))
    play(machine, ev.Sent(ROWS), ev.MarkerWritten(MARKER), UNKNOWN, ev.Reacquired("id-4"))
    assert machine.handle(ev.MarkerRead(MARKER)).outcome is do.Outcome.COMMITTED_BEFORE


def test_a_hopeless_error_is_raised_at_once_after_the_transaction_was_ended():
    """A row that is too large stays too large; nothing stays open because of it."""
    machine = machine_in(S.SENDING)
    error = RowRejected("too large")
    assert machine.handle(ev.SendFailed(error)) == do.Reacquire("id-1")
    assert play(machine, ev.Reacquired("id-2"), ev.MarkerRead(BEFORE)) == do.Raise(error)


def test_lost_blocks_are_computed_again():
    """There is nothing left to send."""
    machine = machine_in(S.SENDING)
    assert machine.handle(ev.BlocksLost("an executor is gone")) == do.Reacquire("id-1")
    assert play(machine, ev.Reacquired("id-2"), ev.MarkerRead(BEFORE)) == do.Prepare(2)
    assert machine.handle(ev.Prepared(ROWS)) == SECOND


def test_preparing_is_bounded():
    """Blocks that never come whole are an error that says why."""
    machine = machine_in(S.PREPARING)
    for attempt in (2, 3):
        assert machine.handle(ev.PrepareFailed("two versions")) == do.Prepare(attempt)
    assert "two versions" in str(machine.handle(ev.PrepareFailed("two versions")).error)
    assert machine.state is S.FAILED


def test_reacquiring_is_bounded():
    """A store that stays away is an error of the call, which may be repeated."""
    machine = machine_in(S.REACQUIRING)
    for _ in range(2):
        assert machine.handle(ev.ReacquireFailed(ERROR)) == do.Reacquire("id-1")
    assert machine.handle(ev.ReacquireFailed(ERROR)) == do.Raise(ERROR)
    assert machine.handle(ARRIVED) == do.Reacquire("id-1")


def test_a_missing_marker_is_told_where_batches_should_have_left_one():
    """Batch 7 runs without a marker: it expired, or the sink is new to the query."""
    machine = Machine()
    play(
        machine,
        ev.BatchArrived("run-1", replace(BATCH, first_try=True)),
        ev.MarkerPeeked(None),
        ev.LastTransactionSeen(Last.NEVER_WAS),
        ev.Owned("id-1"),
        ev.MarkerRead(None),
        ev.MarkerWritten(FIRST),
        ev.Committed("id-2"),
        ev.Prepared(ROWS),
        ev.Sent(ROWS),
        ev.MarkerWritten(MARKER),
        ev.Committed("id-3"),
    )
    (warning,) = machine.handle(ev.MarkerRead(MARKER)).warnings
    assert "no marker was found before batch 7" in warning


@pytest.mark.parametrize("last", list(Last))
def test_within_a_run_a_vanished_marker_does_not_stop_version_1(last):
    """The batch before was ours and nobody has fenced us: this one cannot be in the topic."""
    machine = machine_in(S.COMMITTING)
    play(machine, ev.Committed(None), ev.MarkerRead(None))
    play(machine, ev.BatchArrived("run-1", replace(NEXT, first_try=False)))
    effect = play(machine, ev.Reacquired("id-2", last), ev.MarkerRead(None))
    assert effect == do.WriteMarker("id-2", "query", 7, "hash-7", 0, 0)
