"""Two drivers of one query, two queries of one sink id, one sink object started or called twice."""

import pytest

from .support_trials import RUN_S, said, until

# What Spark says to a driver that finds another one's files in its checkpoint.
SPARKS_OWN = ("CONCURRENT_STREAM_LOG_UPDATE", "Concurrent update to the log", "already exists")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("when", "step", "code"),
    [
        ("before", "prepare", "TWOPHASE_FENCED"),
        # The first one reads its marker only now, and finds what the second one has written.
        ("after", "own", "TWOPHASE_CHECKPOINT_BEHIND"),
    ],
)
def test_two_drivers_on_one_checkpoint_one_hangs(when, step, code, broker, open_trial):
    """Expected: the second takes the sink and writes all; the first stops by name, in time."""
    trial = open_trial(broker)
    trial.start_until("there", faults=[[when, step, 0, "wait at there"]])
    trial.finish(trial.another_driver("second driver"))
    trial.open("there")
    assert trial.driver.wait(RUN_S) == 1, trial.driver.last_words()
    assert code in said(trial.driver)
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_drivers_on_one_checkpoint_at_once(broker, open_trial):
    """Expected: whoever loses the sink or the checkpoint stops by name; each row is there once.

    Both take the id in the same moment, in the middle of the query's life.
    """
    trial = open_trial(broker, rows=1_500)
    assert trial.run(faults=[["after", "send", 1, "die whole"]]) == -9
    drivers = [trial.driver, trial.another_driver("second driver")]
    for at, driver in enumerate(drivers):
        trial.start_until(f"{at}", driver, faults=[["before", "own", 0, f"wait at {at}"]])
    for at in range(2):
        trial.open(f"{at}")
    until(lambda: all(driver.code is not None for driver in drivers), "both to end")
    stopped = [driver for driver in drivers if driver.code != 0]
    assert stopped
    for driver in stopped:
        words = said(driver)
        assert any(word in words for word in ("TWOPHASE_FENCED", *SPARKS_OWN)), words[-3_000:]
    trial.finish()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_two_queries_on_one_sink_id(kafka, open_trial):
    """Expected: the second is refused by the first one's name; the first goes on when restarted."""
    trial = open_trial(kafka)
    assert trial.run(faults=[["after", "commit", 1, "die whole"]]) == -9
    other = trial.another_driver("other query", checkpoint=str(trial.folder / "other"))
    trial.refused("TWOPHASE_OWNED_BY_ANOTHER", other)
    trial.finish()
    assert (1, "skipped") in trial.outcomes()
    trial.check()


@pytest.mark.timeout(300)
def test_restarted_in_the_same_process_with_the_same_sink_object(kafka, open_trial):
    """Expected: each new run owns the id anew, aborts or skips what the last one left."""
    trial = open_trial(kafka, rows=1_500, restarts=2)
    trial.finish(
        faults=[["before", "write_marker", 1, "raise"], ["after", "commit", 3, "raise"]],
    )
    assert said(trial.driver).count("started again after") == 2
    assert (3, "skipped") in trial.outcomes()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_sink_is_called_twice_for_one_batch(kafka, open_trial):
    """Expected: refused, the batch is there once; after a restart the query goes on behind it."""
    trial = open_trial(kafka)
    trial.refused("TWOPHASE_WRONG_BATCH", twice=1)
    trial.finish()
    assert (1, "skipped") in trial.outcomes()
    trial.check()
