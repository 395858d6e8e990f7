"""Checkpoints that lose a plan, or are restored from an older copy."""

import shutil

import pytest
from support.readers import wait_until_ended

from twophase.verify.batches import planned
from twophase.verify.verdict import Kind

# Whatever a person chose, this must not be: rows that are there and wrong.
NEVER = (Kind.VANISHED, Kind.OVERTAKEN, Kind.CORRUPT, Kind.STRANGE, Kind.LEFT_OPEN, Kind.REORDERED)


def lose(trial, log, number):
    """Delete one file of a checkpoint's log, as a bad disk or a bad script does."""
    (trial.checkpoint / log / f"{number}").unlink()
    (trial.checkpoint / log / f".{number}.crc").unlink(missing_ok=True)


def read_up_to(trial, number):
    """How many source rows all batches up to this one read."""
    return sum(planned(trial.checkpoint, trial.source.topic)[number].values())


def plan_anew(trial):
    """Lose the plan of batch 1, which is in the topic, and let Spark plan it with more rows.

    Return what the sink says, the rows that the topic has of batch 1, and how many more it has now.
    """
    assert trial.run(faults=[["after", "commit", 1, "die whole"]]) == -9
    there, before = read_up_to(trial, 1), read_up_to(trial, 0)
    lose(trial, "offsets", 1)
    trial.source.fill(500, 1_200)
    words = trial.refused("TWOPHASE_OFFSETS_CHANGED")
    more = read_up_to(trial, 1) - there
    assert more > 0
    return words, there - before, more


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("by", ["--not-committed 1", "--committed 1"])
def test_a_lost_plan_is_made_anew_with_more_rows(by, kafka, open_trial):
    """Expected: refused; the chosen command doubles or loses exactly what the message says."""
    trial = open_trial(kafka, rows=1_200, fill=500)
    words, there, more = plan_anew(trial)
    trial.resolve(words, by=by)
    trial.finish()
    verdict = trial.judged()
    skipped = by.startswith("--committed")
    assert verdict.count(Kind.LOST) == (more if skipped else 0)
    assert verdict.count(Kind.DUPLICATE) == (0 if skipped else there)
    assert [verdict.count(kind) for kind in NEVER] == [0] * len(NEVER)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_lost_plan_that_is_put_back(kafka, open_trial):
    """Expected: refused while the plan is another; with the old file each row is there once."""
    trial = open_trial(kafka, rows=1_200, fill=500)
    assert trial.run(faults=[["before", "commit", 1, "die whole"]]) == -9
    kept = (trial.checkpoint / "offsets" / "1").read_bytes()
    plan_anew(trial)
    lose(trial, "offsets", 1)
    (trial.checkpoint / "offsets" / "1").write_bytes(kept)
    trial.finish()
    assert (1, "skipped") in trial.outcomes()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_an_older_copy_of_the_checkpoint(kafka, open_trial):
    """Expected: refused, nothing is written; with the newer checkpoint the query goes on."""
    trial = open_trial(kafka, rows=1_500)
    assert trial.run(faults=[["before", "own", 0, "die whole"]]) == -9
    older, newer = trial.folder / "older", trial.folder / "newer"
    shutil.copytree(trial.checkpoint, older)
    assert trial.run(faults=[["after", "commit", 2, "die whole"]]) == -9
    trial.checkpoint.rename(newer)
    older.rename(trial.checkpoint)
    # What ends the last transaction in each partition takes an offset too.
    wait_until_ended(kafka.bootstrap_servers)
    before = trial.length()
    trial.refused("TWOPHASE_CHECKPOINT_BEHIND")
    assert trial.length() == before
    shutil.rmtree(trial.checkpoint)
    newer.rename(trial.checkpoint)
    trial.finish()
    assert (2, "skipped") in trial.outcomes()
    trial.check()
