"""The turns of a sink: each batch once, none left out, and nothing more once it is fenced."""

import pytest

from twophase.commit.recovery import Batch
from twophase.commit.turns import Turns
from twophase.errors import Fenced, WrongBatch


def batch(number, *, first_try=True):
    """A batch of a query."""
    return Batch("query", number, f"offsets-{number}", first_try=first_try)


def test_batches_follow_one_another():
    """The first of a run asks the store; those after it need not, if this run planned them."""
    turns = Turns("sink")
    for number, first_try, follows in ((3, True, False), (4, True, True), (5, False, False)):
        assert turns.begin("run", batch(number, first_try=first_try)) is follows
        turns.end()
    assert not turns.begin("another run", batch(6))


def test_a_gap_does_not_follow():
    """Another driver may have written what is missing."""
    turns = Turns("sink")
    turns.begin("run", batch(0))
    turns.end()
    assert not turns.begin("run", batch(2))


def test_a_batch_comes_once():
    """Also an earlier one is refused; a new run may come to it again."""
    turns = Turns("sink")
    turns.begin("run", batch(4))
    turns.end()
    for number in (4, 3):
        with pytest.raises(WrongBatch, match=f"batch {number} was written in this run already"):
            turns.begin("run", batch(number))
    assert not turns.begin("new run", batch(4))


def test_a_batch_that_failed_comes_first():
    """It may be tried again, and nothing passes it by."""
    turns = Turns("sink")
    turns.begin("run", batch(4))
    with pytest.raises(WrongBatch, match="batch 4 failed in this run"):
        turns.begin("run", batch(5))
    assert not turns.begin("run", batch(4))


def test_a_run_that_was_fenced_writes_nothing_more():
    """A user who calls again does not take the sink back; a new start may."""
    turns = Turns("sink")
    turns.begin("run", batch(0))
    turns.fence("run", Fenced("another driver has it"))
    for _ in range(2):
        with pytest.raises(Fenced, match="another driver has it"):
            turns.begin("run", batch(0))
    assert not turns.begin("new run", batch(0))
