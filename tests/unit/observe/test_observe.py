"""One record per batch: how it is made, logged, counted, and what a broken hook can do."""

import json
import logging
import threading
import time

import pytest
from prometheus_client import CollectorRegistry

from twophase.call_watch import Recovery
from twophase.commit import effects as do
from twophase.commit import events as ev
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch, LastTransaction
from twophase.commit.summary import PartitionSummary, Summary
from twophase.observe import notify, record_of
from twophase.prometheus import PrometheusHook
from twophase.watch import Watch

SUMMARY = Summary((PartitionSummary("t", 0, 1, 10, 500, "d"),))
MARK = do.WriteMarker("id", "q", 3, "h", 10, 500)
COMMITTED = do.Finished(do.Outcome.COMMITTED, 1, ())


def watched(*steps, watch=None):
    """Play effects with what came of them, a hundredth of a second each."""
    watch = watch or Watch()
    for effect, event in steps:
        watch.begins(effect)
        time.sleep(0.01)
        watch.ended(effect, event)
    watch.stop()
    return watch


WRITTEN = (
    (do.Prepare(1), ev.Prepared(SUMMARY)),
    (do.Send("id", SUMMARY), ev.Sent(SUMMARY)),
    (MARK, ev.MarkerWritten(None)),
    (do.Commit("id"), ev.Committed(None)),
    (do.ReadBack(), ev.MarkerRead(None)),
)


def record(watch, finished=COMMITTED, error=None):
    batch = Batch("q", 3, "h", first_try=True)
    return record_of(
        SinkName("orders"), batch, watch, path="driver", finished=finished, error=error
    )


def test_the_record_of_a_written_batch():
    """Rows, bytes, times; the transaction was open from the send to the commit, no longer."""
    found = record(watched(*WRITTEN))
    assert (found.sink_id, found.batch, found.rows, found.bytes) == ("orders", 3, 10, 500)
    assert (found.outcome, found.path, found.attempts) == ("committed", "driver", 1)
    assert min(found.encode_s, found.send_s) >= 0.01
    assert found.commit_s >= 0.02
    assert found.send_s + found.commit_s <= found.open_s <= found.total_s - found.encode_s
    assert found.error is None


def test_a_transaction_counts_as_open_from_where_its_effect_began():
    """Even when the limit is slow to tell: no part of the send is outside of the time open."""

    def told_late():
        time.sleep(0.05)
        return 60.0

    found = record(watched(*WRITTEN, watch=Watch(limit_s=told_late)))
    assert found.send_s >= 0.06
    assert found.send_s + found.commit_s <= found.open_s <= found.total_s - found.encode_s


def test_dead_letters_are_counted_apart(caplog):
    """Among the rejected rows and not among the rows; such a batch is a warning, and a metric."""
    caplog.set_level(logging.INFO, "twophase")
    summary = Summary((*SUMMARY.partitions, PartitionSummary("dead", 1, 1, 3, 70, "d")))
    watch = watched((do.Prepare(1), ev.Prepared(summary)))
    batch = Batch("q", 3, "h", first_try=True)
    settings = {"path": "driver", "error": None, "dead_letter_topic": "dead"}
    found = record_of(SinkName("orders"), batch, watch, finished=COMMITTED, **settings)
    assert (found.rows, found.bytes, found.rejected_rows) == (10, 500, 3)
    skipped = do.Finished(do.Outcome.SKIPPED, 0, ())
    again = record_of(SinkName("orders"), batch, watch, finished=skipped, **settings)
    assert (again.rows, again.rejected_rows) == (0, 0)
    registry = CollectorRegistry()
    notify((PrometheusHook(registry),), found)
    sample = registry.get_sample_value("twophase_rejected_rows_total", {"sink_id": "orders"})
    assert sample == 3
    (line,) = of_ours(caplog)
    assert line.levelno == logging.WARNING
    assert line.twophase["rejected_rows"] == 3


def test_the_record_of_a_failure():
    """The error's text is in it, and no row counts as written."""
    found = record(watched(*WRITTEN[:2]), finished=None, error=ValueError("mine"))
    assert (found.outcome, found.error, found.rows, found.attempts) == ("failed", "mine", 0, 0)
    assert found.open_s > 0


OWNED = (do.Own(), ev.Owned("id"))


@pytest.mark.parametrize(
    ("steps", "finished", "recovery"),
    [
        ((), COMMITTED, Recovery.NONE),
        ((OWNED,), COMMITTED, Recovery.STARTED),
        (
            ((do.DescribeLast(), ev.LastTransactionSeen(LastTransaction.OPEN)), OWNED),
            COMMITTED,
            Recovery.ABORTED_OPEN,
        ),
        ((OWNED,), do.Finished(do.Outcome.COMMITTED, 2, ()), Recovery.SENT_AGAIN),
        ((OWNED,), do.Finished(do.Outcome.SKIPPED, 0, ()), Recovery.SKIPPED),
        ((), do.Finished(do.Outcome.COMMITTED_BEFORE, 1, ()), Recovery.FOUND_COMMITTED),
    ],
)
def test_the_recovery_action(steps, finished, recovery):
    """One word says what was done beside writing."""
    assert record(watched(*steps, *WRITTEN), finished).recovery == recovery


def test_a_skipped_batch_wrote_no_row():
    """What an earlier run wrote is not counted again."""
    skipped = do.Finished(do.Outcome.SKIPPED, 0, ())
    assert record(watched(*WRITTEN), skipped).rows == 0


def test_the_alarm_rings_while_a_transaction_is_open_and_not_after():
    """Once for a slow one, never for one that has ended before."""
    rung, rang = [], threading.Event()

    def ring():
        rung.append("slow")
        rang.set()

    opening, *rest = WRITTEN[1:]
    slow = Watch(lambda: 0.005, ring)
    slow.begins(opening[0])
    assert rang.wait(60)
    slow.ended(*opening)
    watched(*rest, watch=slow)
    assert rung == ["slow"]
    quick = Watch(lambda: 600, lambda: rung.append("quick"))
    quick.begins(opening[0])
    timer = quick._timer
    quick.ended(*opening)
    watched(*rest, watch=quick)
    # Its thread has ended before its time: it was called off, and can ring no more.
    timer.join(60)
    assert not timer.is_alive()
    assert rung == ["slow"]


def of_ours(caplog):
    """The lines of the package itself; a thread that an earlier test left may log as well."""
    return [found for found in caplog.records if found.name == "twophase"]


def test_one_log_line_per_batch(caplog):
    """JSON for people's searches, fields for structured logs; warnings and errors louder."""
    caplog.set_level(logging.INFO, "twophase")
    notify((), record(watched(*WRITTEN)))
    (line,) = of_ours(caplog)
    assert line.levelno == logging.INFO
    assert json.loads(line.getMessage().removeprefix("batch "))["rows"] == 10
    assert line.twophase["sink_id"] == "orders"
    caplog.clear()
    notify((), record(watched(), do.Finished(do.Outcome.COMMITTED, 1, ("the marker is gone",))))
    notify((), record(watched(), None, ValueError("mine")))
    assert [found.levelno for found in of_ours(caplog)] == [logging.WARNING, logging.ERROR]


def test_a_hook_that_fails_changes_nothing(caplog):
    """It is logged, and the next hook is still called."""
    seen = []

    def broken(_record):
        raise RuntimeError("a broken hook")

    notify((broken, seen.append), record(watched()))
    assert len(seen) == 1
    assert "a broken hook" in caplog.text


def test_prometheus():
    """Batches, rows, bytes and seconds are counted by sink."""
    registry = CollectorRegistry()
    hook = PrometheusHook(registry)
    hook(record(watched(*WRITTEN)))
    hook(record(watched(), None, ValueError("mine")))

    def value(name, **labels):
        return registry.get_sample_value(name, {"sink_id": "orders", **labels})

    assert value("twophase_batches_total", outcome="committed", path="driver") == 1
    assert value("twophase_batches_total", outcome="failed", path="driver") == 1
    assert value("twophase_rows_total") == 10
    assert value("twophase_bytes_total") == 500
    assert value("twophase_last_batch") == 3
    assert value("twophase_batch_seconds_count", phase="open") == 2
    assert value("twophase_batch_seconds_sum", phase="open") >= 0.03
    assert value("twophase_recoveries_total", action="none") == 2
