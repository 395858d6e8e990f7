"""A query whose executor is killed with -9: each row once, each key in order."""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from support.readers import read

from twophase.kafka.admin import TransactionState, list_transactions
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire

QUERY = Path(__file__).parent / "query.py"
ROWS = 3_000


class Pipeline:
    """One query with its topics and checkpoint, started again and again."""

    def __init__(self, cluster, source, target, checkpoint):
        self.servers, self.source, self.target = cluster.bootstrap_servers, source, target
        self.arguments = {
            "servers": self.servers,
            "source": source,
            "target": target,
            "checkpoint": str(checkpoint),
            "sink_id": f"kills-{uuid4().hex[:8]}",
            "rows_per_batch": 300,
            "path": "routed",
        }

    def fill(self):
        """Write the input: rows that carry their key and number."""
        producer = Producer({"bootstrap.servers": self.servers, "partitioner": "murmur2_random"})
        for number in range(ROWS):
            producer.produce(self.source, f"{number}".encode(), f"key-{number % 50}".encode())
        assert producer.flush(30) == 0

    def run(self, **more):
        """Run until the end; return its exit code and what it said."""
        arguments = json.dumps(self.arguments | more)
        done = subprocess.run(
            [sys.executable, str(QUERY), arguments],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def check(self):
        """Every input row is in the target once, each key's rows in order, nothing is open."""
        rows = read(self.servers, self.target)
        by_key = defaultdict(list)
        for row in rows:
            by_key[row.key].append(int(row.value))
        assert sorted(number for numbers in by_key.values() for number in numbers) == list(
            range(ROWS)
        )
        assert all(numbers == sorted(numbers) for numbers in by_key.values())
        with Wire(KafkaOptions.parse({"kafka.bootstrap.servers": self.servers})) as wire:
            name = f"twophase.{self.arguments['sink_id']}"
            ongoing = (TransactionState.ONGOING,)
            assert list_transactions(wire, prefix=name, states=ongoing) == ()


@pytest.fixture
def pipeline(kafka, make_topic, tmp_path):
    found = Pipeline(kafka, make_topic(kafka, 2), make_topic(kafka, 3), tmp_path / "checkpoint")
    found.fill()
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("task", [pytest.param("encode", marks=pytest.mark.long), "send"])
def test_an_executor_is_killed(task, pipeline, tmp_path):
    """Executors in JVMs of their own; one is killed with -9 in the middle of a task."""
    memory = tmp_path / "killed"
    code, said = pipeline.run(
        master="local-cluster[2,1,1024]",
        kill_executor=[task, str(memory)],
        rows_per_batch=1_000,
        conf={"spark.sql.adaptive.enabled": "false"},
    )
    assert code == 0, said[-3000:]
    assert memory.exists()
    pipeline.check()
