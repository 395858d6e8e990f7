"""Kafka in task scope across an upgrade of transaction.version: a committable keeps its own."""

from contextlib import closing
from dataclasses import replace

import pytest
from kafka.admin import KafkaAdminClient
from support.task_drivers import TaskSinkStage, rows_of
from support.waiting import wait_until

from twophase.attempt import run_attempt
from twophase.commit.attempts import Turn
from twophase.errors import CommitOutcomeUnknown
from twophase.kafka.identity import TransactionVersion
from twophase.kafka.wires import shared_wire
from twophase.log.decisions import DecisionLog
from twophase.testing import LocalFolder

DECIDES = "create batch-000000000001-0001"


def set_version(cluster, version, how):
    """Let the cluster finalise a transaction.version, as `kafka-features.sh` does it."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        assert admin.update_features({"transaction.version": (how, version)}) == {
            "transaction.version": "OK"
        }


@pytest.fixture
def cluster(private_kafka):
    """Kafka 4.3.1 at transaction.version 1, as after an upgrade of its programs alone."""
    found = private_kafka()
    set_version(found, 1, "UNSAFE_DOWNGRADE")
    return found


def upgrade(cluster, wire):
    """Let the cluster go to version 2, and wait until its brokers say so."""
    set_version(cluster, 2, "UPGRADE")
    wait_until(lambda: wire.transaction_version() is TransactionVersion.V2)


def test_committed_under_the_version_of_its_transaction(cluster, make_topic, tmp_path):
    """Whether that was before the upgrade or is after it; by the new one nobody could tell."""
    stage = TaskSinkStage(cluster, make_topic(cluster), tmp_path / "log")
    wait_until(lambda: stage.wire.transaction_version() is TransactionVersion.V1)
    sink = stage.sink()
    sink.own(stage.prefix, 1, "query")
    turn = Turn(stage.prefix, 1, 0)
    turn = replace(turn, given=sink.open(turn))
    first, second = (
        run_attempt(sink, turn.attempt(task, task), [rows_of(task)]).committable
        for task in range(2)
    )
    assert [each["version"] for each in (first, second)] == [1, 1]
    sink.commit(first)
    upgrade(cluster, stage.wire)
    another = stage.sink()
    another.confirm([second])
    for each in (first, second, second):
        another.commit(each)
    with pytest.raises(CommitOutcomeUnknown):
        another.commit({**first, "version": 2})
    assert stage.values() == [0, 1]
    assert stage.lingering() == []


@pytest.mark.long
def test_a_driver_that_died_before_the_upgrade(cluster, make_loop):
    """What it had decided is committed by the next one, whose cluster speaks the newer version."""
    loop = make_loop(cluster)
    code, said = loop.run(2, at=DECIDES, after=True)
    assert code == -9, said
    undone = DecisionLog(LocalFolder(loop.stage.folder)).look().undone
    assert [each.committable["version"] for each in undone.prepared] == [1, 1]
    upgrade(cluster, shared_wire(loop.stage.parsed))
    code, said = loop.run(3)
    assert code == 0, said
    loop.check(3, "after the upgrade")
