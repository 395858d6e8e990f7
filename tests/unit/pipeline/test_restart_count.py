"""How often in a row a query may fail."""

from types import SimpleNamespace

import pytest
from unit.pipeline.stream import Stream, runner_of

from twophase.errors import StoreUnavailable
from twophase.pipeline import runner as module
from twophase.pipeline.events import Restarting
from twophase.pipeline.runner import Runner
from twophase.pipeline.stopping import Stop
from twophase.pipeline.table import CONTINUOUSLY


@pytest.fixture
def runner():
    pipeline = SimpleNamespace(
        trigger=CONTINUOUSLY,
        restarts=3,
        references=SimpleNamespace(hide=str),
    )
    return Runner(pipeline, None, Stop(), lambda _: None)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "_LOOK_S", 0.01)


def failing(*batches):
    """Return what makes a sink that fails once for each of these batches."""
    left = list(batches)

    def sink(_frame, batch):
        if batch in left:
            left.remove(batch)
            raise StoreUnavailable("not now")

    return lambda: sink


def counts(told):
    return [event.restart for event in told if isinstance(event, Restarting)]


def test_each_new_batch_begins_the_count_anew():
    """Also where the sinks are functions, which have no records: failures months apart are few."""
    runner, told = runner_of(Stream(8), failing(1, 1, 3, 5, 7, 7), restarts=2)
    assert runner.run().restarts == 6
    assert counts(told) == [1, 2, 1, 1, 1, 2]


def test_only_a_batch_that_is_new_begins_the_count_anew():
    """Of two sinks one goes on while the other one fails for ever."""
    runner, told = runner_of(Stream(8), failing(), failing(*[3] * 9), restarts=2)
    with pytest.raises(StoreUnavailable, match="not now"):
        runner.run()
    assert counts(told) == [1, 2]


def test_a_query_that_somebody_else_stops_is_not_a_source_used_up(runner, monkeypatch):
    """An end that nobody here has asked for is a good one only where it was to come."""
    monkeypatch.setattr(runner, "_one_query", lambda: None)
    runner._pipeline.restarts = 0
    with pytest.raises(StoreUnavailable, match="not by this command"):
        runner.run()
    monkeypatch.setattr(runner, "_trigger", {"availableNow": True})
    assert runner.run().why == "the source is used up"
