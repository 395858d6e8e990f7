"""The store's time limit in task scope: who is warned when, and what is too late."""

import logging
import threading
import time

import pytest
from support.scopes import Recording, Tasks, batch, scope_over

from twophase.call_watch import CallWatch
from twophase.clock import Clock
from twophase.errors import CommittableLost, StoreUnavailable, TransactionExpired
from twophase.testing import LocalFolder

WARNED = "transactions of batch {} of sink orders are open for 48 s of the 60 s"


class Limited(Recording):
    """A store that keeps transactions for a minute; each commit may take a while."""

    time_limit_s = 60

    def __init__(self, clock, commit_s=0):
        super().__init__()
        self.clock, self.commit_s = clock, commit_s

    def commit(self, committable):
        with self.lock:
            self.clock.sleep(self.commit_s)
        super().commit(committable)


@pytest.fixture
def sink(clock):
    """A store."""
    return Limited(clock)


def warnings(caplog):
    """What the package itself has logged as a warning, or worse."""
    found = (each for each in caplog.records if each.name.partition(".")[0] == "twophase")
    return [each.getMessage() for each in found if each.levelno >= logging.WARNING]


def test_a_batch_without_time_left_is_refused(scope_of, sink, clock):
    """Nothing is decided, and what was prepared is ended at once."""
    with pytest.raises(TransactionExpired, match="took 57 s and the store keeps a transaction for"):
        scope_of().write("run", batch(0), Tasks(clock, takes_s=57))
    assert sink.calls[-1] == ("recover", 1, 0)
    assert not [call for call in sink.calls if call[0] == "commit"]
    assert clock.alarms == []
    assert scope_of().write("run", batch(0), Tasks(clock, takes_s=56.9)).rows == 20


def test_tasks_that_begin_anew_have_all_the_time_again(scope_of, sink, clock):
    """What their first run has begun is ended before: no transaction is older than the last run."""
    ages = []
    watch = CallWatch()
    tasks = Tasks(clock, takes_s=50, runs=3, meanwhile=lambda: ages.append(watch.opening.limit_s))
    ended = scope_of().write("run", batch(0), tasks, watch)
    assert (ended.rows, ended.run_s, ages) == (20, 150, [60])
    # At the start, before each further run, and after the batch.
    assert [call for call in sink.calls if call[0] == "recover"] == [
        ("recover", 0, 0),
        *[("recover", 1, 0)] * 3,
    ]
    with pytest.raises(TransactionExpired, match="took 58 s"):
        scope_of().write("run", batch(1), Tasks(clock, takes_s=58, runs=2))


def test_tasks_whose_first_run_cannot_be_ended_do_not_run_again(scope_of, sink, clock):
    """What it has prepared would be taken for younger than it is."""
    recover, tasks = sink.recover, Tasks(clock, runs=2, meanwhile=pytest.fail)

    def failing(stale):
        recover(stale)
        if stale.epoch == 1:
            raise StoreUnavailable("not now")

    sink.recover = failing
    with pytest.raises(StoreUnavailable, match="not now"):
        scope_of().write("run", batch(0), tasks)


def test_a_watch_counts_from_the_last_run(scope_of, clock):
    """As metrics and alerts see it."""
    watch, began = CallWatch(), []
    tasks = Tasks(clock, runs=2)
    sleep = clock.sleep
    clock.sleep = lambda seconds: (began.append(watch.opening.began_s), sleep(seconds))
    scope_of().write("run", batch(0), tasks, watch)
    assert began[0] < began[1]


@pytest.mark.parametrize(("takes_s", "warned"), [(47.9, 0), (48, 1)])
def test_the_warning_comes_at_four_fifths(scope_of, clock, caplog, takes_s, warned):
    """While the tasks still run, and in the batch's record; a quicker batch says nothing."""
    seen = []
    tasks = Tasks(clock, takes_s=takes_s, meanwhile=lambda: seen.extend(warnings(caplog)))
    ended = scope_of().write("run", batch(3), tasks)
    assert len(seen) == len(ended.warnings) == warned
    assert all(WARNED.format(3) in each for each in (*seen, *ended.warnings))
    # Nothing is open any more.
    clock.sleep(1_000)
    assert len(warnings(caplog)) == warned


def test_the_warning_comes_while_commits_are_slow_too(scope_of, sink, clock, caplog):
    """What the store drops then is lost."""
    sink.commit_s = 8
    ended = scope_of().write("run", batch(0), Tasks(clock, takes_s=30))
    assert (warnings(caplog), ended.warnings) == ([], ())
    ended = scope_of().write("run", batch(1), Tasks(clock, takes_s=38))
    assert len(warnings(caplog)) == len(ended.warnings) == 1
    assert WARNED.format(1) in ended.warnings[0]


def test_the_warning_counts_from_the_last_run(scope_of, clock, caplog):
    """Two runs of 30 s each are none of 60 s."""
    assert scope_of().write("run", batch(0), Tasks(clock, takes_s=30, runs=2)).warnings == ()
    assert warnings(caplog) == []


@pytest.mark.parametrize("fails", ["tasks", "commits"])
def test_nothing_warns_of_a_batch_that_has_failed(scope_of, sink, clock, caplog, fails):
    """Its transactions are ended, or the next start asks for them."""

    def fail():
        raise ValueError("mine")

    if fails == "commits":
        sink.failing = {1: [CommittableLost("gone")]}
    with pytest.raises((ValueError, CommittableLost)):
        scope_of().write("run", batch(0), Tasks(meanwhile=fail if fails == "tasks" else None))
    clock.sleep(1_000)
    assert warnings(caplog) == []


def test_the_warning_comes_by_this_machines_clock(tmp_path, sink, caplog):
    """From a thread of its own, with the driver's one at work."""
    sink.time_limit_s = 0.5
    began_s, warned_s = time.monotonic(), []

    def wait():
        while not warnings(caplog) and time.monotonic() < began_s + 60:
            time.sleep(0.005)
        warned_s.append(time.monotonic())
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        scope_over(LocalFolder(tmp_path / "log"), sink, Clock()).write(
            "run", batch(0), Tasks(meanwhile=wait)
        )
    assert "for 0.4 s of the 0.5 s" in warnings(caplog)[0]
    assert warned_s[0] - began_s >= 0.4


def test_what_is_called_off_does_not_happen():
    """Nor does what was called off twice, or too late, do any harm."""
    acted = threading.Event()
    late = Clock().after(0.0, acted.set)
    assert acted.wait(10)
    late()
    never = threading.Event()
    before = set(threading.enumerate())
    call_off = Clock().after(600, never.set)
    (thread,) = set(threading.enumerate()) - before
    call_off()
    call_off()
    # Its thread has ended before its time, so it can act no more.
    thread.join(60)
    assert not thread.is_alive()
    assert not never.is_set()
