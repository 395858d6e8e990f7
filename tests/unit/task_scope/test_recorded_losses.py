"""A driver dies behind the record of a loss, and the store forgets: the record is believed.

The failure: rows that were decided on are dropped by the store, and recorded by the user's choice;
before the batch is noted as done the driver dies. The next one commits the decision again, and the
store, which has forgotten the transaction meanwhile, cannot tell whether it was committed. The
query stops there at every start, over rows of which its own log says that they are lost. And over
those that were committed beside them: of these the store forgets it, too, so the record says both.
"""

from dataclasses import replace

import pytest
from support.scopes import Tasks, batch

from twophase.commit.effects import Outcome
from twophase.errors import (
    CommitOutcomeUnknown,
    CommittableLost,
    Fenced,
    LogCorrupt,
    StoreUnavailable,
)
from twophase.log.decisions import DecisionLog
from twophase.log.seal import seal
from twophase.task_scope import OnLost

RECORD = OnLost.RECORD


class DiedError(BaseException):
    """Kill -9."""


def dies_before(folder, kind):
    """Let the driver die before it makes its first file of this kind."""
    create = folder.create

    def dying(name, data):
        if name.startswith(kind):
            folder.create = create
            raise DiedError
        return create(name, data)

    folder.create = dying


@pytest.fixture
def lose(scope_of, sink, folder):
    """Let a driver lose tasks of batch 0, record that, and die before it notes the batch as done.

    Returns its decision. From then on the store does not know what it has dropped.
    """

    def losing(*lost, tasks=(0, 1, 2)):
        sink.failing = {task: [CommittableLost("expired")] for task in lost}
        dies_before(folder, "done-")
        with pytest.raises(DiedError):
            scope_of(on_lost=RECORD).write("run", batch(0), Tasks(tasks=tasks))
        sink.failing = {task: [CommitOutcomeUnknown("forgotten")] * 9 for task in lost}
        sink.calls.clear()
        return DecisionLog(folder).look().undone

    return losing


def commits(sink):
    """The tasks that the store was asked for."""
    return sorted(call[1] for call in sink.calls if call[0] == "commit")


def losses(folder):
    """The records of losses."""
    return sorted(name for name in folder.names() if name.startswith("lost-"))


def test_what_is_recorded_is_not_asked_for_again(scope_of, sink, folder, lose):
    """Nor what was committed beside it; the batch is done, and the loss is told once more."""
    lose(1)
    sink.failing |= {task: [CommitOutcomeUnknown("forgotten, too")] for task in (0, 2)}
    ended = scope_of(on_lost=RECORD).write("next", batch(0, first_try=False), Tasks())
    assert (ended.outcome, commits(sink)) == (Outcome.SKIPPED, [])
    assert "done-000000000000-0001" in folder.names()
    (name,) = losses(folder)
    (warning,) = ended.warnings
    assert "10 rows of task 1 of batch 0" in warning
    assert "(expired; recorded by an earlier start)" in warning
    assert warning.endswith(f"recorded in {folder.root}/{name}")
    assert scope_of().write("later", batch(0, first_try=False), Tasks()).warnings == ()


def test_a_batch_that_is_lost_as_a_whole(scope_of, sink, lose):
    """Nothing is asked for at all."""
    lose(0, 1, 2)
    ended = scope_of(on_lost=RECORD).write("next", batch(0, first_try=False), Tasks())
    assert (ended.outcome, commits(sink), len(ended.warnings)) == (Outcome.SKIPPED, [], 3)


def test_the_users_choice_is_that_of_now(scope_of, sink, folder, lose):
    """Who wants to be stopped by a loss is: by what the record says, which names the way on."""
    lose(1)
    for number in range(2):
        with pytest.raises(CommittableLost) as found:
            scope_of().write(f"strict-{number}", batch(0, first_try=False), Tasks())
        text = str(found.value)
        assert "10 rows in 1 of 3 transactions of batch 0" in text
        assert "(expired; recorded by an earlier start); all else of the batch is commi" in text
        assert 'start with on_lost="record"' in text
    assert commits(sink) == []
    assert not [name for name in folder.names() if name.startswith("done-")]
    assert scope_of(on_lost=RECORD).write("on", batch(0, first_try=False), Tasks()).warnings


def test_a_loss_that_was_not_recorded_any_more_is_asked_for(scope_of, sink, folder):
    """The driver died between two records: the second task is as unknown as it ever was."""
    sink.failing = {task: [CommittableLost("expired")] for task in (0, 1)}
    create = folder.create
    folder.create = lambda name, data: (
        dies_before(folder, "lost-") if name.startswith("lost-") else None,
        create(name, data),
    )[1]
    with pytest.raises(DiedError):
        scope_of(on_lost=RECORD).write("run", batch(0), Tasks())
    folder.create = create
    assert len(losses(folder)) == 1
    sink.calls.clear()
    sink.failing = {task: [CommitOutcomeUnknown("forgotten")] for task in (0, 1)}
    with pytest.raises(CommitOutcomeUnknown, match="forgotten"):
        scope_of(on_lost=RECORD).write("next", batch(0, first_try=False), Tasks())
    assert commits(sink) == [1]
    assert not [name for name in folder.names() if name.startswith("done-")]


def loses_and_fails(scope_of, sink):
    """A driver records the loss of task 0, and the store does not answer for 1 and 2."""
    sink.failing = {0: [CommittableLost("expired")]}
    sink.failing |= {task: [StoreUnavailable("away")] * 6 for task in (1, 2)}
    with pytest.raises(StoreUnavailable, match="away"):
        scope_of(on_lost=RECORD).write("run", batch(0), Tasks(tasks=(0, 1, 2, 3)))
    sink.calls.clear()


def test_all_else_is_committed_as_ever(scope_of, sink, folder):
    """What was neither lost nor committed: tried again, or lost by itself."""
    loses_and_fails(scope_of, sink)
    sink.failing = {1: [StoreUnavailable("later")] * 2, 2: [CommittableLost("expired too")]}
    ended = scope_of(on_lost=RECORD).write("next", batch(0, first_try=False), Tasks())
    assert (ended.outcome, commits(sink)) == (Outcome.SKIPPED, [1, 1, 1, 2])
    assert len(losses(folder)) == len(ended.warnings) == 2


def test_what_is_not_committed_yet_stops_the_query(scope_of, sink, folder):
    """A recorded loss makes no batch done of which the rest is open."""
    loses_and_fails(scope_of, sink)
    sink.failing = {1: [StoreUnavailable("still away")] * 6}
    with pytest.raises(StoreUnavailable, match="still away"):
        scope_of(on_lost=RECORD).write("next", batch(0, first_try=False), Tasks())
    assert not [name for name in folder.names() if name.startswith("done-")]


def test_what_is_committed_later_is_in_no_record(scope_of, sink):
    """A record never changes: this is asked for again, as it is where nothing is lost."""
    loses_and_fails(scope_of, sink)
    for name in ("next", "again"):
        sink.failing = {2: [StoreUnavailable("away")] * 6}
        with pytest.raises(StoreUnavailable, match="away"):
            scope_of(on_lost=RECORD).write(name, batch(0, first_try=False), Tasks())
    assert commits(sink) == [1, 1, *[2] * 12]


@pytest.mark.parametrize(
    "other",
    [{"batch": 1}, {"epoch": 99}],
    ids=lambda other: "another " + next(iter(other)),
)
def test_the_record_of_another_decision_excuses_nothing(scope_of, sink, folder, lose, other):
    """Of another batch, or of the same one in the hands of another driver."""
    decision = lose(1)
    for name in losses(folder):
        folder.delete(name)
    DecisionLog(folder).record_lost(replace(decision, **other), decision.prepared[1], "expired")
    with pytest.raises(CommitOutcomeUnknown, match="forgotten"):
        scope_of(on_lost=RECORD).write("next", batch(0, first_try=False), Tasks())
    assert commits(sink) == [0, 1, 2]


def test_the_record_of_another_task_excuses_nothing(scope_of, sink, folder, lose):
    """Each committable has a record of its own, or none."""
    decision = lose(1)
    for name in losses(folder):
        folder.delete(name)
    DecisionLog(folder).record_lost(decision, decision.prepared[2], "expired")
    with pytest.raises(CommitOutcomeUnknown, match="forgotten"):
        scope_of(on_lost=RECORD).write("next", batch(0, first_try=False), Tasks())
    assert commits(sink) == [0, 1]


@pytest.mark.parametrize(
    "content",
    [
        {"slot": 0},
        {"slot": None},
        {"owner": "another"},
        {"name": "another"},
        {"rows": 9},
        {"committable": {"task": 1, "more": True}},
        {"why": None},
        {"why": 7},
        {"committed": None},
        {"committed": [0, 1]},
        {"committed": [0, 3]},
        {"committed": ["0"]},
        {"committed": [[0]]},
        {"more": "than that"},
    ],
    ids=str,
)
def test_a_file_that_is_not_this_record_is_refused(scope_of, sink, folder, lose, content):
    """It lies where the record would, and nobody writes such a file: nothing is asked, or done."""
    decision = lose(1)
    log, lost = DecisionLog(folder), decision.prepared[1]
    (name,) = losses(folder)
    found = log._sealed(name)
    folder.delete(name)
    folder.create(name, seal(found | content))
    with pytest.raises(LogCorrupt, match=f"{name} records another loss than that of {lost.name}"):
        scope_of(on_lost=RECORD).write("next", batch(0, first_try=False), Tasks())
    assert commits(sink) == []
    assert not [name for name in folder.names() if name.startswith("done-")]


def test_a_driver_that_was_replaced_stops_all_the_same(scope_of, sink, folder, lose):
    """Another has gone on past the recorded loss while this one was about to."""
    decision = lose(1)
    for name in losses(folder):
        folder.delete(name)
    DecisionLog(folder).record_lost(decision, decision.prepared[1], "expired")

    def meanwhile(_committable):
        DecisionLog(folder).record_done(decision)

    sink.commit = meanwhile
    for choice in OnLost:
        folder.delete("done-000000000000-0001")
        with pytest.raises(Fenced, match="another driver has committed batch 0"):
            scope_of(on_lost=choice).write(choice, batch(0, first_try=False), Tasks())


def test_a_driver_does_not_read_records_of_its_own_decisions(scope_of, folder):
    """They are new: a batch that nothing happens to costs no look more."""
    scope = scope_of()
    scope.write("run", batch(0), Tasks())
    names, looks = folder.names, []
    folder.names = lambda: (looks.append(1), names())[1]
    scope.write("run", batch(1), Tasks())
    # Whether a later batch is there, and what to trim.
    assert len(looks) == 2
