"""Whether this very run has planned a batch: True only where that is certain."""

import itertools
from uuid import uuid4

import pytest

from twophase.spark import stream
from twophase.spark.stream import _Call, _first_try


@pytest.fixture
def tried(monkeypatch):
    """Return what is said of a batch of one query, run by run, by a clock that only goes on."""
    monkeypatch.setattr(stream, "wall_ms", itertools.count(1_763_273_670_123, 3).__next__)
    query = uuid4().hex

    def read(name):
        raise AssertionError(f"{name} is not asked for")

    def ask(run_id, number, *, young, made_ms=None, since_ms=0):
        made_ms = stream.wall_ms() if made_ms is None else made_ms
        planned_ms = made_ms + 5 if young else made_ms - 5
        call = _Call(query, run_id, "owner", "root", read, since_ms)
        return _first_try(call, number, planned_ms, made_ms)

    return ask


def test_the_first_batch_of_a_process_by_its_age(tried):
    """An old file may be a replay of what an earlier process has committed."""
    assert not tried("run", 3, young=False)


def test_a_file_that_is_younger_than_the_sink(tried):
    """Planned since the sink was made, by the first run that it sees."""
    assert tried("run", 3, young=True)


def test_a_file_that_is_older_than_the_process(tried):
    """A sink may be made before Spark is started: an earlier process may have planned the batch."""
    assert not tried("run", 3, young=True, since_ms=stream.wall_ms() + 60_000)


def test_a_sink_that_is_older_than_the_last_run(tried):
    """Another process may have run the query between two runs of this one with one sink object."""
    made_ms = stream.wall_ms()
    tried("run", 3, young=True, made_ms=made_ms)
    assert not tried("again", 4, young=True, made_ms=made_ms)


def test_later_batches_of_a_run(tried):
    """Only the first batch of a run can be a replay."""
    tried("run", 3, young=False)
    assert tried("run", 4, young=False)
    assert tried("run", 5, young=False)


def test_a_second_call_for_a_replay_makes_it_no_newer(tried):
    """By another sink of the query, or by a user's own retry: it is still a replay."""
    tried("run", 3, young=False)
    assert not tried("run", 3, young=False)
    assert tried("run", 4, young=False)
    assert tried("run", 4, young=False)


def test_a_batch_that_an_earlier_run_of_the_process_came_to(tried):
    """It is a replay, however young its file is; the next one is not, if it is young."""
    tried("run", 3, young=True)
    assert not tried("again", 3, young=True)
    assert not tried("once more", 4, young=False)
    assert tried("and more", 5, young=True)


def test_a_batch_below_one_of_the_same_run(tried):
    """The checkpoint was rolled back under a running query: nothing is certain."""
    tried("run", 3, young=True)
    assert not tried("run", 2, young=True)
