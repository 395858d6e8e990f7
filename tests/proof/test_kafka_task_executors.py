"""Executors in JVMs of their own, harmed after their transactions are prepared in Kafka."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from support.readers import values

from twophase.kafka.admin import TransactionState, list_transactions
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wires import shared_wire

from .cluster import SparkCluster
from .test_executors import EAGER

JOB = Path(__file__).parent / "kafka_task_job.py"
ROWS, TASKS = 4_000, 8

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory):
    """A master and three workers."""
    with SparkCluster(tmp_path_factory.mktemp("spark"), 3) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("harm", "harmed", "conf"),
    [("kill", "1", {}), ("slow", "0", EAGER)],
    ids=["lost", "speculated"],
)
def test_harmed_after_it_has_prepared(
    spark_cluster, kafka, make_topic, tmp_path, harm, harmed, conf
):
    """Another attempt of the task prepares too, and Spark takes one: each row once."""
    topic, sink_id, notes = make_topic(kafka, 2), f"job-{uuid4().hex[:8]}", tmp_path / "notes"
    notes.mkdir()
    arguments = {
        "servers": kafka.bootstrap_servers,
        "topic": topic,
        "sink_id": sink_id,
        "rows": ROWS,
        "tasks": TASKS,
        "notes": str(notes),
        "harm": harm,
        "log": str(tmp_path / "log"),
    }
    done = subprocess.run(
        [sys.executable, str(JOB), json.dumps(arguments | spark_cluster.settings(**conf))],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["rows"] == ROWS
    if harm == "kill":
        # The rows that the executor had shuffled are gone, too: the stage ran again.
        assert told["tries"] > 1
    assert Counter(path.name.split("-")[0] for path in notes.glob("*-*"))[harmed] > 1
    found = values(kafka.bootstrap_servers, topic)
    assert sorted(map(int, found)) == list(range(ROWS))
    wire = shared_wire(KafkaOptions.parse({"kafka.bootstrap.servers": kafka.bootstrap_servers}))
    states = (TransactionState.ONGOING,)
    assert list_transactions(wire, prefix=f"twophase.{sink_id}", states=states) == ()
