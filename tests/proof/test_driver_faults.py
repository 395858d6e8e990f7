"""The driver killed with -9 around every step, and frozen while another one takes over."""

import pytest

from .support_trials import RUN_S, said, until

# Where the driver dies, in which batch at the earliest; each run goes on where the last one fell.
OWNING = [
    (when, step, 0)
    for step in ("peek_marker", "describe_last", "own", "read_marker")
    for when in ("before", "after")
]
WRITING = [
    ("before", "prepare", 0),
    ("after", "prepare", 1),
    ("before", "send", 2),
    ("after", "send", 3),
    ("before", "write_marker", 4),
    ("after", "write_marker", 5),
    ("before", "commit", 6),
    ("after", "commit", 7),
]
# A new sink writes its first marker in a transaction of its own, at the first batch.
FOUNDING = [(when, step, 0) for step in ("write_marker", "commit") for when in ("before", "after")]


def die_in_turn(trial, deaths):
    """Let the query die so often, every second time as a whole and else Python alone.

    The JVM of a driver whose Python died alone is not waited for: the next driver starts beside it.
    """
    drivers = [trial.driver, trial.another_driver("other driver")]
    for at, where in enumerate(deaths):
        driver = drivers[at % 2]
        driver.start(faults=[[*where, "die" if at % 4 in {1, 2} else "die whole"]])
        until(lambda driver=driver: driver.code is not None, f"death {where}")
        assert driver.code == -9, f"{where}: {driver.last_words()}"


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    ("path", "deaths"),
    [
        ("local", [("after", "own", 0), *WRITING]),
        pytest.param("routed", [("after", "own", 0), *WRITING], marks=pytest.mark.long),
        pytest.param("driver", WRITING, marks=pytest.mark.long),
        pytest.param("routed", FOUNDING + OWNING + WRITING, marks=pytest.mark.long),
    ],
    ids=["local", "routed", "driver", "new"],
)
def test_killed_before_and_after_every_step(path, deaths, broker, open_trial):
    """Expected: the next start aborts, repeats or skips the batch; every row is there once."""
    trial = open_trial(broker, rows=2_700, options={"path": path})
    die_in_turn(trial, deaths)
    trial.finish()
    assert "skipped" in {outcome for _, outcome in trial.outcomes()}
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_frozen_past_the_timeout_while_another_takes_over(broker, open_trial):
    """Expected: the broker aborts, the second driver writes all; thawed, the first is fenced."""
    short = {"kafka.transaction.timeout.ms": 3_000}
    trial = open_trial(broker, rows=1_500, kafka=short)
    trial.start_until("sent", faults=[["after", "send", 1, "wait at sent"]])
    trial.driver.freeze()
    assert trial.is_open()
    until(lambda: not trial.is_open(), "the broker's timeout")
    trial.finish(trial.another_driver("second driver"))
    taken = trial.state()
    trial.open("sent")
    trial.driver.thaw()
    assert trial.driver.wait(RUN_S) == 1, trial.driver.last_words()
    assert "TWOPHASE_FENCED" in said(trial.driver)
    seen = trial.state()
    assert (seen.producer_id, seen.epoch) == (taken.producer_id, taken.epoch), "nothing was taken"
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_frozen_after_its_batch_is_sent_and_overtaken_at_once(broker, open_trial):
    """Expected: the second driver's start aborts the open transaction; the first is fenced."""
    trial = open_trial(broker, rows=1_500)
    trial.start_until("marked", faults=[["after", "write_marker", 1, "wait at marked"]])
    trial.driver.freeze()
    trial.finish(trial.another_driver("second driver"))
    trial.open("marked")
    trial.driver.thaw()
    assert trial.driver.wait(RUN_S) == 1, trial.driver.last_words()
    assert "TWOPHASE_FENCED" in said(trial.driver)
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_python_dies_while_its_tasks_send(kafka, open_trial):
    """Expected: the tasks of a dead driver write under a stale epoch; the next driver's rows count.

    Python is killed alone as soon as the log grows; the next driver starts beside its JVM.
    """
    options, small = {"path": "routed"}, {"kafka.batch.size": 2_000}
    trial = open_trial(kafka, rows=6_000, rows_per_batch=3_000, options=options, kafka=small)
    trial.start_until("preparing", faults=[["after", "prepare", 1, "wait at preparing"]])
    before = trial.length()
    trial.open("preparing")
    trial.wait_until(lambda: trial.length() > before, RUN_S)
    trial.driver.kill_python()
    trial.finish(trial.another_driver("second driver"))
    trial.check()
