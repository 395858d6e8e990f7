"""The driver's loop of task scope: what it decides, retries, records and refuses."""

import threading
import time

import pytest
from support.scopes import PREFIX, Recording, Tasks, batch, scope_over

from twophase.call_watch import CallWatch, Phase, Recovery
from twophase.commit.attempts import Attempt, Stale
from twophase.commit.effects import Outcome
from twophase.commit.naming import SinkName
from twophase.errors import (
    AccessDenied,
    CommitOutcomeUnknown,
    CommitRejected,
    CommittableLost,
    ConfigurationError,
    Fenced,
    ProtocolViolation,
    StoreUnavailable,
    TransactionExpired,
    WrongBatch,
)
from twophase.log.decisions import DecisionLog
from twophase.observe import TASK, scope_record
from twophase.task_scope import _COMMITS_AT_ONCE, OnLost


def test_the_way_of_a_batch(scope_of, sink, folder):
    """A start recovers; a batch is confirmed, decided, committed, done, and what lost is ended."""
    scope = scope_of()
    ended = scope.write("run", batch(0), Tasks())
    assert (ended.outcome, ended.rows, ended.warnings) == (Outcome.COMMITTED, 20, ())
    assert sink.calls[:2] == [("recover", 0, 0), ("confirm", 2)]
    assert sorted(sink.calls[2:4]) == [("commit", 0), ("commit", 1)]
    assert sink.calls[4:] == [("recover", 1, 0)]
    assert "done-000000000000-0001" in folder.names()
    # Within a run there is nothing to take over.
    scope.write("run", batch(1), Tasks())
    assert [call for call in sink.calls[5:] if call[0] != "commit"] == [
        ("confirm", 2),
        ("recover", 1, 1),
    ]
    assert "batch-000000000001-0000" in folder.names()


def test_a_batch_that_is_there_is_skipped(scope_of, sink):
    """Its plan is executed all the same, once, and nothing is prepared."""
    scope_of().write("run", batch(0), Tasks())
    sink.calls.clear()
    tasks = Tasks()
    ended = scope_of().write("again", batch(0, first_try=False), tasks)
    assert (ended.outcome, ended.rows, tasks.executed) == (Outcome.SKIPPED, 0, 1)
    assert sink.calls == [("recover", 1, 0)]


def test_what_was_decided_is_committed_by_the_next(scope_of, sink, folder):
    """A driver that failed in mid-commit leaves a decision that the next one carries out."""
    sink.failing = {1: [CommitRejected("no")]}
    with pytest.raises(CommitRejected, match="no"):
        scope_of().write("run", batch(0), Tasks())
    assert "done-000000000000-0001" not in folder.names()
    sink.calls.clear()
    assert scope_of().write("b", batch(0, first_try=False), Tasks()).outcome is Outcome.SKIPPED
    assert sorted(sink.calls[:2]) == [("commit", 0), ("commit", 1)]
    assert "done-000000000000-0001" in folder.names()


def test_a_commit_is_tried_again_a_bounded_number_of_times(scope_of, sink, clock):
    """With growing pauses, while trying may help."""
    sink.failing = {0: [StoreUnavailable("later")] * 3}
    scope_of().write("run", batch(0), Tasks())
    assert sink.calls.count(("commit", 0)) == 4
    assert clock.at_s == pytest.approx(1000 + 0.1 + 0.2 + 0.4)
    sink.failing = {0: [StoreUnavailable("later")] * 100}
    with pytest.raises(StoreUnavailable):
        scope_of().write("other", batch(1), Tasks())
    assert len(sink.failing[0]) == 94


def test_what_a_call_shows_while_it_goes_on(scope_of, sink, folder):
    """Open with its limit from the tasks to the last commit; retries, recovery, bytes."""
    watch, seen = CallWatch(), []
    sink.time_limit_s = 77.0
    sink.failing = {0: [StoreUnavailable("later")] * 3}

    def look():
        seen.append((watch.phase, watch.opening.limit_s))

    tasks = Tasks(meanwhile=look)
    scope_of().write("run", batch(0), tasks, watch)
    assert (seen, watch.opening, watch.phase) == ([(Phase.SEND, 77.0)], None, Phase.COMMIT)
    assert (watch.retries, watch.recovered) == (3, Recovery.STARTED)
    # Decided, not committed: the next driver does it.
    sink.failing = {1: [CommitRejected("no")]}
    failed = CallWatch()
    with pytest.raises(CommitRejected):
        scope_of().write("a", batch(1, first_try=False), Tasks(), failed)
    assert failed.opening is not None
    again = CallWatch()
    ended = scope_of().write("b", batch(1, first_try=False), Tasks(), again)
    assert (ended.outcome, again.recovered) == (Outcome.SKIPPED, Recovery.COMMITTED_AGAIN)
    record = scope_record(
        SinkName("orders"), batch(1), path=TASK, ended=ended, watch=again, error=None
    )
    assert (record.outcome, record.recovery) == ("skipped", "committed-again")
    # How many bytes they were is not a part of the log.
    assert all(b'"bytes"' not in folder.read(name) for name in folder.names())


def test_an_outcome_that_cannot_be_told_is_no_loss(scope_of, sink, folder):
    """It stops the query, also where losses are recorded; the next start asks again."""
    sink.failing = {1: [CommitOutcomeUnknown("forgotten")]}
    with pytest.raises(CommitOutcomeUnknown, match=r"\(forgotten\); all else of the batch is com"):
        scope_of(on_lost=OnLost.RECORD).write("run", batch(0), Tasks())
    assert not [name for name in folder.names() if name.startswith(("lost-", "done-"))]
    assert scope_of().write("again", batch(0, first_try=False), Tasks()).outcome is Outcome.SKIPPED


def test_all_outcomes_that_cannot_be_told_are_in_one_error(scope_of, sink):
    """Who looks for the rows of one of them would take the others for committed."""
    sink.failing = {
        0: [StoreUnavailable("away")] * 6,
        1: [CommitOutcomeUnknown("forgotten b")],
        2: [CommittableLost("expired")],
        3: [CommitOutcomeUnknown("forgotten d")],
    }
    with pytest.raises(CommitOutcomeUnknown) as found:
        scope_of(on_lost=OnLost.RECORD).write("run", batch(0), Tasks(tasks=range(5)))
    text = str(found.value)
    assert "20 rows in 2 of 5 transactions of batch 0" in text
    for task, why in ((1, "forgotten b"), (3, "forgotten d")):
        assert f"10 rows of task {task} of batch 0, transaction {PREFIX}" in text
        assert f"({why})" in text
    assert "of all else 1 are committed and 1 are not yet" in text
    assert "1 are recorded as lost; the whole decision is in" in text
    assert found.value.ids["tasks"] == [1, 3]


@pytest.mark.parametrize("tasks", [(0, 1), (1, 0)])
def test_what_no_retry_can_mend_is_told_first(scope_of, sink, tasks):
    """Else the person waits for a store that will never take the rest."""
    sink.failing = {tasks[0]: [StoreUnavailable("away")] * 6, tasks[1]: [AccessDenied("not you")]}
    with pytest.raises(AccessDenied, match="not you"):
        scope_of().write("run", batch(0), Tasks())


@pytest.mark.parametrize("kind", [CommittableLost, CommitOutcomeUnknown])
def test_a_driver_that_was_replaced_records_no_loss(scope_of, sink, folder, kind):
    """Another has committed the batch and gone on, so that the store knows it no more."""
    log = DecisionLog(folder)

    class Replaced(kind):
        def __init__(self):
            super().__init__("gone")
            if undone := log.look().undone:  # Commits run side by side: one of them is first.
                log.record_done(undone)

    sink.failing = {1: []}
    sink.commit = lambda _: (_ for _ in ()).throw(Replaced())
    with pytest.raises(Fenced, match="another driver has committed batch 0"):
        scope_of(on_lost=OnLost.RECORD).write("run", batch(0), Tasks())
    assert not [name for name in folder.names() if name.startswith("lost-")]


def test_a_driver_that_was_replaced_cannot_decide(scope_of, sink):
    """The newer one has made its slot void, or decided; the older one commits nothing."""
    newer = scope_of()
    tasks = Tasks(meanwhile=lambda: newer.write("newer", batch(0, first_try=False), Tasks()))
    old = scope_of()
    with pytest.raises(Fenced, match="another driver has taken over batch 0"):
        old.write("older", batch(0), tasks)
    assert sorted(sink.calls).count(("commit", 0)) == 1


def test_a_driver_that_starts_slowly_gives_way(scope_of, sink, folder):
    """Otherwise the faster one, which started later, would end what it prepares in a later slot."""
    faster, create = scope_of(), folder.create

    def overtaken(name, data):
        if name == "batch-000000000000-0000":
            folder.create = create
            with pytest.raises(ValueError, match="mine"):
                faster.write("faster", batch(0, first_try=False), Tasks(meanwhile=fail))
        return create(name, data)

    def fail():
        raise ValueError("mine")

    folder.create = overtaken
    with pytest.raises(Fenced, match="a driver that started later was faster"):
        scope_of().write("slower", batch(0, first_try=False), Tasks())
    assert not [call for call in sink.calls if call[0] == "commit"]


def test_a_slot_that_was_trimmed_decides_nothing(scope_of, sink, folder):
    """A driver so late that its batch's files are gone again commits nothing, nor does the next."""
    newer = scope_of()

    def others_go_on():
        newer.write("newer", batch(0, first_try=False), Tasks())
        for number in range(1, 5):
            newer.write("newer", batch(number), Tasks())
        sink.calls.clear()

    with pytest.raises(Fenced, match="another driver has taken over batch 0"):
        scope_of().write("older", batch(0), Tasks(meanwhile=others_go_on))
    assert "batch-000000000000-0001" in folder.names()
    scope_of().write("next", batch(5, first_try=False), Tasks())
    assert sorted(sink.calls).count(("commit", 0)) == 1


def test_a_batch_is_written_once_in_a_run(scope_of):
    """Two calls for two halves of a batch would have one decision: the second would be lost."""
    scope = scope_of()
    scope.write("run", batch(0), Tasks())
    with pytest.raises(WrongBatch, match="batch 0 was written in this run already"):
        scope.write("run", batch(0), Tasks())


def test_a_batch_that_failed_may_be_tried_again(scope_of, folder):
    """By the same driver, which takes it over from its own earlier try."""
    scope = scope_of()

    def fail():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        scope.write("run", batch(0), Tasks(meanwhile=fail))
    scope.write("run", batch(0), Tasks())
    decided = [each for each in DecisionLog(folder).look().decisions if each.commits]
    assert [(each.batch, each.slot, each.epoch) for each in decided] == [(0, 2, 2)]


def test_a_batch_that_failed_is_not_left_out(scope_of):
    """A user's function that swallows the error would lose the batch's rows without a word."""
    scope = scope_of()

    def fail():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        scope.write("run", batch(0), Tasks(meanwhile=fail))
    with pytest.raises(WrongBatch, match="batch 0 failed in this run and its error did not end"):
        scope.write("run", batch(1), Tasks())
    assert scope.write("another", batch(0, first_try=False), Tasks()).rows == 20


def test_what_is_prepared_when_a_task_fails_is_ended(scope_of, sink):
    """At once, not at the next start: a batch job may have none."""

    def fail():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        scope_of().write("run", batch(0), Tasks(meanwhile=fail))
    assert sink.calls[-1] == ("recover", 1, 0)


def test_a_batch_without_time_trims_nothing(scope_of, sink, clock, folder):
    """The last decision to commit stays, however far the batch number has jumped."""
    scope = scope_of()
    scope.write("run", batch(0), Tasks())
    sink.time_limit_s = 60
    with pytest.raises(TransactionExpired):
        scope_of().write("next", batch(50), Tasks(clock, takes_s=61))
    assert "batch-000000000000-0001" in folder.names()


def test_two_winners_of_one_task_are_a_bug(scope_of, sink):
    """Nothing is decided then."""
    with pytest.raises(ProtocolViolation):
        scope_of().write("run", batch(0), Tasks(tasks=(1, 1)))
    assert not [call for call in sink.calls if call[0] == "commit"]


def test_what_lost_and_cannot_be_ended_is_told(scope_of, sink):
    """The batch is committed all the same."""
    recover = sink.recover

    def failing(stale):
        recover(stale)
        if stale.epoch == 1:
            raise StoreUnavailable("not now")

    sink.recover = failing
    ended = scope_of().write("run", batch(0), Tasks())
    assert ended.outcome is Outcome.COMMITTED
    assert "not now" in ended.warnings[0]


def test_a_log_that_cannot_be_trimmed_is_no_failure(scope_of, folder, caplog):
    """The batch is done: an error would have it asked for once more, and refused as written."""
    scope, names = scope_of(), folder.names

    def away():
        if "done-000000000000-0001" in names():
            raise OSError("not now")
        return names()

    folder.names = away
    assert scope.write("run", batch(0), Tasks()).outcome is Outcome.COMMITTED
    assert "could not be read to be trimmed: not now" in caplog.text
    folder.names = names
    assert scope.write("run", batch(1), Tasks()).outcome is Outcome.COMMITTED


@pytest.mark.parametrize(
    ("name", "stale"),
    [
        (Attempt(PREFIX, 1, 4, 0, 0).name, True),
        (Attempt(PREFIX, 1, 9, 0, 0).name, False),
        (Attempt(PREFIX, 2, 5, 3, 17).name, True),
        (Attempt(PREFIX, 2, 6, 0, 0).name, False),
        (Attempt(PREFIX, 3, 0, 0, 0).name, False),
        (Attempt("twophase.orders2//", 1, 0, 0, 0).name, False),
        (Attempt("twophase.orders/run//", 1, 0, 0, 0).name, False),
        (PREFIX + "something else", False),
        (7, False),
    ],
)
def test_what_is_stale(name, stale):
    """Only names of this sink, up to this batch and this driver."""
    assert (name in Stale(PREFIX, 2, 5)) is stale


def test_all_of_a_driver_that_has_ended_is_stale():
    """Whatever its batch, and nobody else's."""
    stale = Stale(PREFIX, 0, 0, ended=range(2, 4))
    found = [epoch for epoch in range(6) if Attempt(PREFIX, epoch, 9, 0, 0).name in stale]
    assert found == [2, 3]


def test_which_drivers_have_ended(scope_of, sink):
    """Older ones at a start and after a batch; its own after a batch, and where it failed."""
    found = []
    recover = sink.recover
    sink.recover = lambda stale: (found.append(stale.ended), recover(stale))
    scope = scope_of()
    scope.write("run", batch(0), Tasks())
    assert found == [range(1), range(2)]
    found.clear()
    with pytest.raises(ValueError, match="fails"):
        scope.write("run", batch(1), Tasks(meanwhile=lambda: raising(ValueError("fails"))))
    assert found == [range(1, 2)]
    found.clear()
    scope_of().write("again", batch(0, first_try=False), Tasks())
    assert found == [range(0)], "an older driver may be at work on a later batch"


def raising(error):
    """Raise it."""
    raise error


def test_a_sink_is_owned_and_opened(scope_of, sink):
    """At a start, before anything is ended; and before the tasks of each batch, which get it."""
    given = []
    sink.own = lambda *about: sink.calls.append(("own", *about))
    sink.open = lambda turn: ("opened", turn.batch)

    class Looking(Tasks):
        def run(self, turn, anew):
            given.append(turn.attempt(0, 0).given)
            return super().run(turn, anew)

    scope = scope_of()
    for number in range(2):
        scope.write("run", batch(number), Looking())
    assert sink.calls[:2] == [("own", PREFIX, 1, "query"), ("recover", 0, 0)]
    assert [call[0] for call in sink.calls].count("own") == 1
    assert given == [("opened", 0), ("opened", 1)]


def test_a_start_that_came_too_late_ends_nothing(scope_of, sink, folder):
    """Its slot was free only because others have gone on and trimmed the log."""
    first = scope_of()
    names = folder.names

    def late():
        found = names()
        # Between its look and its void slot another driver writes four batches.
        folder.names = names
        for number in range(4):
            first.write("first", batch(number), Tasks())
        sink.calls.clear()
        return [name for name in found if not name.startswith("batch-")]

    second = scope_of()
    take = second._log.take_epoch
    second._log.take_epoch = lambda *about: (take(*about), setattr(folder, "names", late))[0]
    with pytest.raises(Fenced, match="a later batch is there"):
        second.write("second", batch(0, first_try=False), Tasks())
    assert sink.calls == []


def test_on_lost_is_one_of_two():
    """Anything else is refused with what is allowed."""
    assert OnLost.parse("Record") is OnLost.RECORD
    with pytest.raises(ConfigurationError, match="on_lost='ignore' is not allowed; write one of"):
        OnLost.parse("ignore")


class Crowded(Recording):
    """A store that counts how many commits it has at once, of which none ends alone."""

    def __init__(self):
        super().__init__()
        self.pairs = threading.Barrier(2)
        self.inside, self.most = 0, 0

    def commit(self, committable):
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.pairs.wait(30)
        # Time enough for all that are let in.
        time.sleep(0.1)
        with self.lock:
            self.inside -= 1
        super().commit(committable)


def test_commits_go_side_by_side_and_not_all_at_once(folder, clock):
    """One after another they would wait for ever here; and a store bears only so many."""
    sink = Crowded()
    scope_over(folder, sink, clock).write("run", batch(0), Tasks(tasks=range(20)))
    assert sorted(call[1] for call in sink.calls if call[0] == "commit") == list(range(20))
    assert 1 < sink.most <= _COMMITS_AT_ONCE < 20
