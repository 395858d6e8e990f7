"""BatchScope on a real server: each batch once, or a refusal that says what to do; no Spark."""

import pytest
from support.batch_scope import Given, numbered, offered, refused, write

from twophase.commit.effects import Outcome
from twophase.errors import (
    CheckpointBehind,
    Fenced,
    MarkerMissing,
    OffsetsChanged,
    OwnedByAnother,
    ProtocolViolation,
    WrongBatch,
)


def test_rows_arrive_once(sink):
    """Of all tasks, also those without rows; the marker says which batch and how many."""
    tasks = Given(numbered(1, 2), [], numbered(3))
    ended = write(sink.scope(), 0, tasks=tasks)
    assert (ended.outcome, ended.rows, ended.warnings) == (Outcome.COMMITTED, 3, ())
    assert sink.rows() == numbered(1, 2, 3)
    assert sink.marker()[:4] == ("query", 0, "hash-0", 3)
    assert sink.stages() == []


def test_a_batch_comes_twice_in_one_run(sink):
    """It is refused, and nothing is written again."""
    scope = sink.scope()
    write(scope, 0, *numbered(1))
    with pytest.raises(WrongBatch, match="batch 0 was written in this run already"):
        write(scope, 0, *numbered(1))
    write(scope, 1, *numbered(2), first_try=True)
    assert sink.rows() == numbered(1, 2)


def test_a_batch_that_failed_is_not_passed_over(sink):
    """The next one is refused; the same one may come again."""
    scope = sink.scope()

    def fails(_):
        raise ValueError("the user's own")

    with pytest.raises(ValueError, match="the user's own"):
        write(scope, 0, tasks=Given(numbered(1), then=fails))
    with pytest.raises(WrongBatch, match="batch 0 failed in this run"):
        write(scope, 1, *numbered(2), first_try=True)
    assert write(scope, 0, *numbered(1)).outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(1)
    assert sink.stages() == []


def test_a_restart_skips_what_is_there(sink):
    """The plan is executed, no task runs, and the next batches go on."""
    write(sink.scope(), 0, *numbered(1))
    again, tasks = sink.scope(), Given(numbered(1))
    ended = write(again, 0, tasks=tasks)
    assert (ended.outcome, ended.rows) == (Outcome.SKIPPED, 0)
    assert (tasks.executed, tasks.ran) == (1, 0)
    for number in (1, 2):
        ended = write(again, number, *numbered(number + 1), first_try=True)
        assert ended.outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(1, 2, 3)
    assert sink.marker()[1] == 2


@pytest.mark.parametrize("tasks", [(), ([], [])], ids=["no task", "tasks without rows"])
def test_an_empty_batch_moves_the_marker(sink, tasks):
    """So that the next driver knows that it was written."""
    ended = write(sink.scope(), 0, tasks=Given(*tasks))
    assert (ended.outcome, ended.rows) == (Outcome.COMMITTED, 0)
    assert sink.marker()[:4] == ("query", 0, "hash-0", 0)
    assert write(sink.scope(), 0).outcome is Outcome.SKIPPED
    assert sink.rows() == []


def test_two_winners_of_one_task(sink):
    """Whoever reports them breaks the protocol; nothing is written."""

    class Twice(Given):
        def run(self, stage):
            return super().run(stage) * 2

    with pytest.raises(ProtocolViolation, match="two attempts of one task won"):
        write(sink.scope(), 0, tasks=Twice(numbered(1)))
    assert sink.rows() == []
    assert sink.marker()[1] == -1


def test_a_marker_that_is_missing(sink):
    """Batch 5 may be there or not; a person says which, and then it is so."""
    error = refused(sink, MarkerMissing, 5)
    assert set(offered(error)) == {"to skip it:", "to write it:"}
    sink.ask(offered(error)["to skip it:"])
    scope = sink.scope()
    assert write(scope, 5, *numbered(5)).outcome is Outcome.SKIPPED
    assert write(scope, 6, *numbered(6), first_try=True).outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(6)


def test_a_missing_marker_written_by_hand(sink):
    """The other choice: the batch is written, and once."""
    error = refused(sink, MarkerMissing, 5)
    sink.ask(offered(error)["to write it:"])
    assert write(sink.scope(), 5, *numbered(5)).outcome is Outcome.COMMITTED
    assert write(sink.scope(), 5, *numbered(5)).outcome is Outcome.SKIPPED
    assert sink.rows() == numbered(5)


@pytest.mark.parametrize(("number", "first_try"), [(0, False), (0, True), (7, True)])
def test_no_marker_and_nothing_to_fear(sink, number, first_try):
    """The first batch of all, or one that no earlier run can have written."""
    ended = write(sink.scope(), number, *numbered(1), first_try=first_try)
    assert ended.outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(1)


def test_another_owner(sink):
    """It is refused, the owner writes on, and after the hand-over it is the other way round."""
    running = sink.scope()
    write(running, 3, *numbered(1), first_try=True)
    error = refused(sink, OwnedByAnother, 0, owner="it's\\other")
    assert "belongs to query, which has written batch 3" in error.message
    write(running, 4, *numbered(2), first_try=True)
    (handed_over,) = offered(error).values()
    sink.ask(handed_over)
    other = sink.scope()
    ended = write(other, 0, *numbered(3), owner="it's\\other", offsets="o")
    assert ended.outcome is Outcome.COMMITTED
    with pytest.raises(Fenced):
        write(running, 5, *numbered(4), first_try=True)
    refused(sink, OwnedByAnother, 5)
    write(other, 1, *numbered(5), owner="it's\\other", first_try=True)
    assert sink.rows() == numbered(1, 2, 3, 5)
    assert sink.marker()[:2] == ("it's\\other", 1)


def test_a_checkpoint_that_is_behind(sink):
    """It is refused, the running driver writes on; what the person asks for is doubled."""
    running = sink.scope()
    for number in range(4):
        write(running, number, *numbered(number), first_try=True)
    error = refused(sink, CheckpointBehind, 2)
    assert "batch 3 is written already and the checkpoint is at 2" in error.message
    write(running, 4, *numbered(4), first_try=True)
    (doubles,) = offered(error).values()
    sink.ask(doubles)
    assert write(sink.scope(), 2, *numbered(2)).outcome is Outcome.COMMITTED
    assert sink.rows() == sorted([*numbered(0, 1, 2, 3, 4), *numbered(2)])
    assert sink.marker()[1] == 2


def test_other_offsets(sink):
    """The batch's number stands for other rows: refused, and skipped if a person says so."""
    running = sink.scope()
    write(running, 0, *numbered(1), offsets="then")
    error = refused(sink, OffsetsChanged, 0, offsets="now")
    assert "(hash then, now now)" in error.message
    sink.ask(offered(error)["to skip it:"])
    scope = sink.scope()
    assert write(scope, 0, *numbered(2), offsets="now").outcome is Outcome.SKIPPED
    write(scope, 1, *numbered(3), first_try=True)
    assert sink.rows() == numbered(1, 3)


def test_other_offsets_written_by_hand(sink):
    """The other choice; and until then the running driver is not fenced."""
    running = sink.scope()
    write(running, 0, *numbered(1), offsets="then")
    error = refused(sink, OffsetsChanged, 0, offsets="now")
    write(running, 1, *numbered(2), first_try=True)
    sink.ask(offered(error)["to write it:"])
    assert write(sink.scope(), 0, *numbered(3), offsets="now").outcome is Outcome.COMMITTED
    assert write(sink.scope(), 0, *numbered(3), offsets="now").outcome is Outcome.SKIPPED
    assert sink.rows() == numbered(1, 2, 3)
