"""The target topic deleted and made anew: what was in it is gone, and nothing else may be."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from support.readers import partitions, read

from twophase.verify.batches import Batches, planned
from twophase.verify.seen import collect
from twophase.verify.sights import Sights

from .support_trials import RUN_S, said, until


def recreate(trial):
    """Delete the target and make it again under the same name."""
    admin = AdminClient({"bootstrap.servers": trial.source.servers})
    count = partitions(trial.source.servers, trial.target)
    admin.delete_topics([trial.target])[trial.target].result(timeout=30)

    def made():
        topic = NewTopic(trial.target, num_partitions=count)
        try:
            admin.create_topics([topic])[trial.target].result(timeout=30)
        except KafkaException:
            return False
        return True

    until(made, "the new topic")


def whole_batches(trial):
    """Which batches are in the topic, all of each or none, no row twice."""
    source, rows = trial.source, trial.source.input
    sights = Sights(rows, collect(rows, read(source.servers, trial.target)))
    assert sights.duplicates().count == 0
    batches = Batches.by_offsets(rows, source.read(), planned(trial.checkpoint, source.topic))
    found = {int(number) for number in batches.of_row[sights.seen]}
    missing = {int(number) for number in batches.of_row[~sights.seen]}
    assert not found & missing, "a batch is there in part"
    return found


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("when", "step"),
    [
        ("before", "prepare"),
        ("after", "prepare"),
        ("after", "send"),
        ("after", "write_marker"),
    ],
)
def test_made_anew_while_a_batch_is_written(when, step, broker, open_trial):
    """Expected: the batch is in the new topic, or the sink stops by name.

    Batch 0 went with the old topic, by the hand that deleted it.
    """
    trial = open_trial(broker, kafka={"kafka.delivery.timeout.ms": 40_000})
    trial.start_until("there", faults=[[when, step, 1, "wait at there"]])
    recreate(trial)
    trial.open("there")
    if trial.driver.wait(RUN_S) != 0:
        assert f"topic {trial.target!r} was made anew" in said(trial.driver)
        return
    assert whole_batches(trial) == set(range(1, trial.batches_planned()))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_made_anew_between_two_runs(broker, open_trial):
    """Expected: the marker is gone with the topic, which the sink warns of; new batches go on."""
    trial = open_trial(broker, fill=400)
    trial.finish()
    before = trial.batches_planned()
    recreate(trial)
    trial.source.fill(400, 900)
    trial.finish()
    assert whole_batches(trial) == set(range(before, trial.batches_planned()))
    (first,) = [record for record in trial.records() if record["batch"] == before]
    assert any("no marker was found" in warning for warning in first["warnings"])


@pytest.mark.long
@pytest.mark.timeout(300)
def test_made_anew_while_the_batch_is_a_replay(broker, open_trial):
    """Expected: refused, since nothing tells whether the batch was in the old topic."""
    trial = open_trial(broker)
    assert trial.run(faults=[["after", "commit", 1, "die whole"]]) == -9
    recreate(trial)
    words = trial.refused("TWOPHASE_MARKER_MISSING")
    trial.resolve(words, by="--not-committed 1")
    trial.finish()
    assert whole_batches(trial) == set(range(1, trial.batches_planned()))
