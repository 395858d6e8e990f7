"""The target topic deleted and made anew: what was in it is gone, and nothing else may be."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from support.readers import partitions

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
