"""The marker deleted or overwritten by somebody else, before a restart and under a transaction."""

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from .support_trials import RUN_S


def delete(trial):
    """Do what a tool does that tidies up groups without members."""
    admin = AdminClient({"bootstrap.servers": trial.source.servers})
    group = trial.transactional_id
    admin.delete_consumer_groups([group])[group].result(timeout=30)


def overwrite(trial):
    """Do what a tool does that resets the offsets of a group it does not know."""
    admin = AdminClient({"bootstrap.servers": trial.source.servers})
    place = TopicPartition(trial.target, 0, 5, "reset by ops")
    asked = ConsumerGroupTopicPartitions(trial.transactional_id, [place])
    for done in admin.alter_consumer_group_offsets([asked]).values():
        done.result(timeout=30)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("harm", "code"),
    [(delete, "TWOPHASE_MARKER_MISSING"), (overwrite, "TWOPHASE_MARKER_UNREADABLE")],
)
@pytest.mark.parametrize(
    ("step", "by", "outcome"),
    [("commit", "--committed 1", "skipped"), ("write_marker", "--not-committed 1", "committed")],
)
def test_harmed_when_the_batch_is_a_replay(step, by, outcome, harm, code, broker, open_trial):
    """Expected: refused; the command that fits what the topic has lets each row be there once.

    The driver died after its commit, so that batch 1 is in the topic, or before it, so that it is
    not.
    """
    trial = open_trial(broker)
    assert trial.run(faults=[["after", step, 1, "die whole"]]) == -9
    harm(trial)
    words = trial.refused(code)
    trial.resolve(words, by=by)
    trial.finish()
    assert (1, outcome) in trial.outcomes()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_deleted_when_every_batch_is_done(broker, open_trial):
    """Expected: the next batch is planned by the new run itself, and goes on without a marker."""
    trial = open_trial(broker, fill=400)
    trial.finish()
    delete(trial)
    trial.source.fill(400, 900)
    trial.finish()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("harm", [delete, overwrite])
def test_harmed_while_the_transaction_is_open(harm, kafka, open_trial):
    """Expected: the batch is committed without its marker, warned of; the next one brings it back.

    So a later restart finds a marker and is not refused.
    """
    trial = open_trial(kafka, rows=1_200)
    faults = [["after", "write_marker", 1, "wait at marked"], ["after", "commit", 2, "die whole"]]
    trial.start_until("marked", faults=faults)
    harm(trial)
    trial.open("marked")
    assert trial.driver.wait(RUN_S) == -9, trial.driver.last_words()
    (record,) = [record for record in trial.records() if record["batch"] == 1]
    assert record["outcome"] == "committed"
    assert any("a restart now may be refused" in warning for warning in record["warnings"])
    trial.finish()
    assert (2, "skipped") in trial.outcomes()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("harm", "code"),
    [(delete, "TWOPHASE_MARKER_MISSING"), (overwrite, "TWOPHASE_MARKER_UNREADABLE")],
)
def test_harmed_while_the_transaction_is_open_and_restarted(harm, code, broker, open_trial):
    """Expected: the second witness shows a commit and not of which batch, so a person decides."""
    trial = open_trial(broker)
    faults = [["after", "write_marker", 1, "wait at marked"], ["after", "commit", 1, "die whole"]]
    trial.start_until("marked", faults=faults)
    harm(trial)
    trial.open("marked")
    assert trial.driver.wait(RUN_S) == -9, trial.driver.last_words()
    words = trial.refused(code)
    trial.resolve(words, by="--committed 1")
    trial.finish()
    assert (1, "skipped") in trial.outcomes()
    trial.check()
