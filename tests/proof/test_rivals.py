"""Two drivers of one query, two queries of one sink id, one sink object started or called twice."""

import pytest

from .support_trials import RUN_S, said, until

FENCED, BEHIND = "TWOPHASE_FENCED", "TWOPHASE_CHECKPOINT_BEHIND"
# What Spark says to a driver that finds another one's files in its checkpoint.
SPARKS_OWN = ("CONCURRENT_STREAM_LOG_UPDATE", "Concurrent update to the log", "already exists")
# Where rows of a batch are with the brokers, and nothing of it is visible.
SENT = {"batch": ["after", "send"], "task": ["after", "confirm"]}
# And where it will be visible, whoever asks for that.
COMMITTED = {"batch": ["after", "commit"], "task": ["after", "decide"]}
scopes = pytest.mark.parametrize("scope", ["batch", "task"])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("scope", "where", "codes"),
    [
        ("batch", ["before", "prepare", 0], [FENCED]),
        # The first one reads its marker only now, and finds what the second one has written.
        ("batch", ["after", "own", 0], [BEHIND]),
        ("task", ["after", "own", 0], [FENCED]),
        ("task", ["before", "open", 0], [FENCED]),
        ("task", ["before", "decide", 1], [FENCED]),
        # The second one commits what the first has decided, which then finds that done.
        ("task", ["after", "decide", 1], [FENCED, *SPARKS_OWN]),
    ],
)
def test_two_drivers_on_one_checkpoint_one_hangs(scope, where, codes, broker, open_trial):
    """Expected: the second takes the sink and writes all; the first stops by name, in time."""
    trial = open_trial(broker, options={"scope": scope})
    trial.start_until("there", faults=[[*where, "wait at there"]])
    trial.finish(trial.another_driver("second driver"))
    trial.open("there")
    assert trial.driver.wait(RUN_S) == 1, trial.driver.last_words()
    words = said(trial.driver)
    assert any(code in words for code in codes), words[-3_000:]
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(600)
@scopes
def test_two_drivers_on_one_checkpoint_at_once(scope, broker, open_trial):
    """Expected: whoever loses the sink or the checkpoint stops by name; each row is there once.

    Both take the id in the same moment, in the middle of the query's life.
    """
    trial = open_trial(broker, rows=1_500, options={"scope": scope})
    assert trial.run(faults=[[*SENT[scope], 1, "die whole"]]) == -9
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
        assert any(word in words for word in (FENCED, *SPARKS_OWN)), words[-3_000:]
    trial.finish()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("scope", "shared"),
    [("batch", False), ("task", False), ("task", True)],
    ids=["batch", "task", "task-one-log"],
)
def test_two_queries_on_one_sink_id(scope, shared, kafka, open_trial, tmp_path):
    """Expected: the second is refused by the first one's name, and ends nothing of it.

    The first goes on when restarted. In task scope with a decision log each, or with the same one.
    """
    options = {"scope": scope, **({"decisions": str(tmp_path / "log")} if shared else {})}
    trial = open_trial(kafka, options=options)
    assert trial.run(faults=[[*COMMITTED[scope], 1, "die whole"]]) == -9
    left = trial.open_ids()
    assert bool(left) == (scope == "task")
    other = trial.another_driver("other query", checkpoint=str(trial.folder / "other"))
    trial.refused("TWOPHASE_OWNED_BY_ANOTHER", other)
    assert trial.open_ids() == left
    trial.finish()
    assert (1, "skipped") in trial.outcomes()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(400)
@scopes
def test_a_second_query_beside_one_at_work(scope, broker, open_trial):
    """Expected: it is refused at its start by the first one's name, which goes on undisturbed.

    The first one has rows of a batch with the brokers, and writes that batch and all later ones
    without an error, each at its first attempt.
    """
    trial = open_trial(broker, options={"scope": scope})
    trial.start_until("sent", faults=[[*SENT[scope], 1, "wait at sent"]])
    left = trial.open_ids()
    assert left
    other = trial.another_driver("other query", checkpoint=str(trial.folder / "other"))
    trial.refused("TWOPHASE_OWNED_BY_ANOTHER", other)
    assert trial.open_ids() == left
    trial.open("sent")
    assert trial.driver.wait(RUN_S) == 0, trial.driver.last_words()
    written = [each for each in trial.records() if each["outcome"] != "failed"]
    ended = [(each["batch"], each["outcome"], each["attempts"]) for each in written]
    assert ended == [(batch, "committed", 1) for batch in range(trial.batches_planned())]
    trial.check()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("scope", "before"),
    [("batch", "write_marker"), pytest.param("task", "confirm", marks=pytest.mark.long)],
    ids=["batch", "task"],
)
def test_restarted_in_the_same_process_with_the_same_sink_object(scope, before, kafka, open_trial):
    """Expected: each new run owns the id anew, aborts or skips what the last one left."""
    trial = open_trial(kafka, rows=1_500, restarts=2, options={"scope": scope})
    trial.finish(faults=[["before", before, 1, "raise"], [*COMMITTED[scope], 3, "raise"]])
    assert said(trial.driver).count("started again after") == 2
    assert (3, "skipped") in trial.outcomes()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(300)
@scopes
def test_the_sink_is_called_twice_for_one_batch(scope, kafka, open_trial):
    """Expected: refused, the batch is there once; after a restart the query goes on behind it."""
    trial = open_trial(kafka, options={"scope": scope})
    trial.refused("TWOPHASE_WRONG_BATCH", twice=1)
    trial.finish()
    assert (1, "skipped") in trial.outcomes()
    trial.check()
