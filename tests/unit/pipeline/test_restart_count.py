"""How often in a row a query may fail."""

from types import SimpleNamespace

import pytest

from twophase.errors import StoreUnavailable
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


def record(sink_id, batch):
    return SimpleNamespace(sink_id=sink_id, batch=batch, rows=1, error=None)


def look(runner, monkeypatch, *records):
    seen = SimpleNamespace(batch=None, message="", rows_per_s=0.0, lag=None)
    monkeypatch.setattr("twophase.spark.pipeline_query.look", lambda _query: seen)
    monkeypatch.setattr(runner._following, "records", lambda: records)
    runner._look(None, SimpleNamespace(last=None))


def test_only_a_batch_that_is_new_begins_the_count_anew(runner, monkeypatch):
    """Of two sinks one goes on, or skips, while the other one fails for ever."""
    look(runner, monkeypatch, record("a", 7))
    runner._in_a_row = 2
    look(runner, monkeypatch, record("a", 7))
    assert runner._in_a_row == 2
    look(runner, monkeypatch, record("a", 8))
    assert runner._in_a_row == 0


def test_a_query_that_somebody_else_stops_is_not_a_source_used_up(runner, monkeypatch):
    """An end that nobody here has asked for is a good one only where it was to come."""
    monkeypatch.setattr(runner, "_one_query", lambda: None)
    runner._pipeline.restarts = 0
    with pytest.raises(StoreUnavailable, match="not by this command"):
        runner.run()
    monkeypatch.setattr(runner, "_trigger", {"availableNow": True})
    assert runner.run().why == "the source is used up"
