"""The target topic deleted and made anew: what was in it is gone, and nothing else may be."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from support.readers import partitions, read

from twophase.verify.batches import Batches, planned
from twophase.verify.seen import collect
from twophase.verify.sights import Sights

from .support_trials import RUN_S, until


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
@pytest.mark.parametrize("where", [("after", "send"), ("before", "prepare"), ("after", "prepare"), ("after", "write_marker")])
def test_while_a_batch_is_written(where, broker, open_trial):
    trial = open_trial(broker, kafka={"kafka.delivery.timeout.ms": 40_000})
    trial.start_until("there", faults=[[*where, 1, "wait at there"]])
    recreate(trial)
    trial.open("there")
    code = trial.driver.wait(RUN_S)
    print("CODE", code, trial.outcomes(), trial.records()[-2:], trial.driver.last_words()[-1500:] if code else "")
    print("BATCHES", whole_batches(trial))
    assert code is None


@pytest.mark.long
@pytest.mark.timeout(300)
def test_between_two_runs(broker, open_trial):
    trial = open_trial(broker, fill=400)
    trial.finish()
    recreate(trial)
    trial.source.fill(400, 900)
    code = trial.run()
    print("CODE", code, trial.outcomes(), trial.records()[-2:], trial.driver.last_words()[-1500:] if code else "")
    print("BATCHES", whole_batches(trial))
    assert code is None
