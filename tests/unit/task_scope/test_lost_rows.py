"""Rows that the store has dropped after the decision: all of them are told, and nothing else."""

import json

import pytest
from support.scopes import Tasks, batch

from twophase.call_watch import CallWatch
from twophase.commit.effects import Outcome
from twophase.commit.naming import SinkName
from twophase.errors import (
    CommitOutcomeUnknown,
    CommitRejected,
    CommittableLost,
    Fenced,
    StoreUnavailable,
)
from twophase.log.decision import Prepared
from twophase.log.decisions import DecisionLog
from twophase.observe import TASK, scope_record
from twophase.task_scope import OnLost

THREE = (0, 1, 2)


def lost_files(folder):
    """The records of what is lost, as they are in the log, by task."""
    names = sorted(name for name in folder.names() if name.startswith("lost-"))
    return {name: json.loads(folder.read(name).split(b"\n")[1]) for name in names}


def test_rows_that_are_lost_stop_the_query(scope_of, sink):
    """At every start, with all that a person needs, until that person decides."""
    sink.failing = {1: [CommittableLost("expired")] * 2}
    for number in range(2):
        with pytest.raises(CommittableLost) as found:
            scope_of().write(f"run-{number}", batch(0, first_try=not number), Tasks())
        text = str(found.value)
        assert all(
            word in text for word in ("10 rows of task 1 of batch 0", "expired", "/0000000001/")
        )
        assert found.value.ids["committables"] == [{"task": 1}]
    assert sink.calls.count(("commit", 0)) == 2


def test_all_that_is_lost_is_in_one_error(scope_of, sink, folder):
    """Two of three: a person repairs both, then says so once; the third is committed."""
    sink.failing = {0: [CommittableLost("expired a")] * 2, 2: [CommittableLost("expired c")] * 2}
    with pytest.raises(CommittableLost) as found:
        scope_of().write("run", batch(0), Tasks(tasks=THREE))
    text = str(found.value)
    decision = DecisionLog(folder).look().undone
    for task, why in ((0, "expired a"), (2, "expired c")):
        name = decision.prepared[task].name
        assert f"10 rows of task {task} of batch 0, transaction {name} ({why})" in text
    assert "20 rows in 2 of 3 transactions of batch 0" in text
    assert "all else of the batch is committed;" in text
    assert found.value.ids["tasks"] == [0, 2]
    assert found.value.ids["committables"] == [{"task": 0}, {"task": 2}]
    assert sorted(sink.calls).count(("commit", 1)) == 1
    # The person has written both by hand.
    again = scope_of(on_lost=OnLost.RECORD).write("again", batch(0, first_try=False), Tasks())
    assert again.outcome is Outcome.SKIPPED
    assert [each["task"] for each in lost_files(folder).values()] == [0, 2]
    assert len(again.warnings) == 2
    assert scope_of().write("next", batch(0, first_try=False), Tasks()).warnings == ()


def test_a_batch_that_is_lost_as_a_whole(scope_of, sink):
    """Nothing of it is said to be committed."""
    sink.failing = {task: [CommittableLost("expired")] for task in THREE}
    with pytest.raises(CommittableLost, match=r"30 rows in 3 of 3 .* nothing else is in the batch"):
        scope_of().write("run", batch(0), Tasks(tasks=THREE))


@pytest.mark.parametrize("error", [StoreUnavailable, CommitRejected, CommitOutcomeUnknown])
def test_what_is_not_committed_yet_is_not_said_to_be(scope_of, sink, error):
    """Beside a loss the store may refuse, or not answer: the next start asks again."""
    sink.failing = {0: [error("not today")] * 6, 2: [CommittableLost("expired")] * 2}
    with pytest.raises(CommittableLost) as found:
        scope_of().write("run", batch(0), Tasks(tasks=THREE))
    text = str(found.value)
    assert "of all else 1 are committed and 1 are not yet" in text
    assert f"{error.code}: not today" in text
    assert "all else of the batch is committed" not in text
    sink.failing.pop(0)
    with pytest.raises(CommittableLost, match="all else of the batch is committed"):
        scope_of().write("again", batch(0, first_try=False), Tasks())


def test_a_store_that_fences_knows_better(scope_of, sink, folder):
    """The rows may be missing only because another driver is at work: nothing is recorded."""
    sink.failing = {0: [CommittableLost("gone")], 2: [Fenced("a newer one is there")]}
    with pytest.raises(Fenced, match="a newer one is there"):
        scope_of(on_lost=OnLost.RECORD).write("run", batch(0), Tasks(tasks=THREE))
    assert lost_files(folder) == {}


def test_rows_that_are_lost_are_recorded_by_choice(scope_of, sink, folder):
    """The query goes on, and what is missing stays written down."""
    sink.failing = {1: [CommittableLost("expired")], 2: [CommittableLost("dropped")]}
    ended = scope_of(on_lost=OnLost.RECORD).write("run", batch(0), Tasks(tasks=THREE))
    found = lost_files(folder)
    assert [(each["task"], each["rows"], each["why"]) for each in found.values()] == [
        (1, 10, "expired"),
        (2, 10, "dropped"),
    ]
    for name, told in zip(found, ended.warnings, strict=True):
        task, why = found[name]["task"], found[name]["why"]
        assert f"10 rows of task {task} of batch 0, transaction {found[name]['name']}" in told
        assert f"({why})" in told
        assert told.endswith(f"/{name}")


def test_a_loss_is_logged_at_once(scope_of, sink, caplog):
    """A call that fails later has no warnings, and the next start finds the batch done."""
    sink.failing = {1: [CommittableLost("expired")] * 2}
    with pytest.raises(CommittableLost):
        scope_of().write("run", batch(0), Tasks())
    caplog.clear()
    sink.recover = lambda _: (_ for _ in ()).throw(StoreUnavailable("gone again"))
    with pytest.raises(StoreUnavailable, match="gone again"):
        scope_of(on_lost=OnLost.RECORD).write("next", batch(0, first_try=False), Tasks())
    (told,) = (each.getMessage() for each in caplog.records if "dropped" in each.getMessage())
    assert "10 rows of task 1 of batch 0" in told
    del sink.recover
    assert scope_of().write("later", batch(0, first_try=False), Tasks()).warnings == ()


def test_what_is_recorded_is_done_only_with_all_else(scope_of, sink, folder):
    """A store that does not answer beside a loss stops the query all the same."""
    sink.failing = {0: [StoreUnavailable("later")] * 6, 1: [CommittableLost("expired")] * 2}
    with pytest.raises(StoreUnavailable, match="later"):
        scope_of(on_lost=OnLost.RECORD).write("run", batch(0), Tasks())
    assert len(lost_files(folder)) == 1
    assert not [name for name in folder.names() if name.startswith("done-")]
    again = scope_of(on_lost=OnLost.RECORD).write("again", batch(0, first_try=False), Tasks())
    assert (again.outcome, len(again.warnings)) == (Outcome.SKIPPED, 1)
    assert len(lost_files(folder)) == 1


class Putting(Tasks):
    """Tasks with 10 rows of 100 bytes each, which have put as many aside as their number says."""

    def run(self, turn, _anew):
        return [
            Prepared(n, turn.attempt(n, 5).name, 10, {"task": n, "rejected_rows": n}, 1_000)
            for n in self.tasks
        ]


def test_rows_that_are_lost_are_not_counted_as_written(scope_of, sink):
    """Neither by the call's end nor by its record, from which the metrics and the log line come."""
    sink.failing = {2: [CommittableLost("expired")]}
    ended = scope_of(on_lost=OnLost.RECORD).write("run", batch(0), Putting(tasks=(1, 2, 3)))
    assert (ended.rows, ended.rejected_rows, ended.bytes) == (9 + 7, 1 + 3, 2_000)
    watch = CallWatch()
    record = scope_record(
        SinkName("orders"), batch(0), path=TASK, ended=ended, watch=watch, error=None
    )
    assert (record.outcome, record.rows, record.rejected_rows) == ("committed", 16, 4)
