"""Kafka in task scope keeps the contract, on real brokers of both protocol versions."""

import json

import pyarrow as pa
import pytest
from support.readers import values

from twophase.kafka.admin import TransactionState, list_transactions
from twophase.kafka.options import KafkaOptions
from twophase.kafka.task_sink import KafkaTaskSink
from twophase.kafka.wires import shared_wire
from twophase.testing import SinkContract, Stage


def stage_on(broker, topic, folder):
    """A stage over one topic."""
    options = KafkaOptions.parse({"kafka.bootstrap.servers": broker.bootstrap_servers})

    def held():
        open_now = list_transactions(shared_wire(options), states=(TransactionState.ONGOING,))
        return sum(each.transactional_id.startswith("twophase.contract-") for each in open_now)

    return Stage(
        lambda: KafkaTaskSink(options, topic, topic),
        lambda: [json.loads(each) for each in values(broker.bootstrap_servers, topic)],
        folder / "log",
        rows=lambda ids: pa.RecordBatch.from_pydict(
            {"value": pa.array([json.dumps(each).encode() for each in ids], pa.binary())}
        ),
        held=held,
    )


class TestVersion2(SinkContract):
    """All of it, on Kafka 4.3.1."""

    @pytest.fixture
    def stage(self, kafka, make_topic, tmp_path):
        """A new topic."""
        return stage_on(kafka, make_topic(kafka, 2), tmp_path)

    @pytest.mark.long
    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_killed_at_each_step(self, stage, *, after):
        """A minute."""
        super().test_killed_at_each_step(stage, after=after)

    @pytest.mark.long
    @pytest.mark.timeout(600)
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_frozen_at_each_step(self, stage, *, after):
        """A minute."""
        super().test_frozen_at_each_step(stage, after=after)


@pytest.mark.long
@pytest.mark.timeout(1_200)
class TestVersion1(SinkContract):
    """All of it, on Kafka 3.9.2."""

    @pytest.fixture
    def stage(self, kafka39, make_topic, tmp_path):
        """A new topic."""
        return stage_on(kafka39, make_topic(kafka39, 2), tmp_path)
