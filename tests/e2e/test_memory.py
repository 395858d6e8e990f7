"""A batch leaves nothing on the executors' disks, and its size is no matter to the driver."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition
from support.readers import wait_until_ended
from support.streams import Files, routed_sink, run

from twophase.spark.routed_path import RoutedPath

PROGRAM = Path(__file__).parent / "large.py"
LARGE_ROWS, ROW_BYTES, PARTITIONS = 2_200_000, 1_000, 2
EARLY = 5
# What the shuffle of one batch of these tests takes, and more.
A_BATCH_BYTES = 3_000


class Watched:
    """A sink after each of whose batches the disks are looked at."""

    def __init__(self, sink, context):
        self.sink, self.context = sink, context
        blocks = context._jvm.org.apache.spark.SparkEnv.get().blockManager()
        self.folders = [Path(found.getPath()) for found in blocks.diskBlockManager().localDirs()]
        # Of what tests before this one have left some may vanish at any moment.
        self.before, self.kept_before = self.files(), self.blocks()
        self.bytes, self.persisted = [], []

    def files(self):
        """Return the files that Spark has now, and their sizes; some vanish while we look."""
        found = {}
        for folder, _, names in (entry for top in self.folders for entry in os.walk(top)):
            for path in (Path(folder, name) for name in names):
                with suppress(FileNotFoundError):
                    found[path] = path.stat().st_size
        return found

    def blocks(self):
        """Return the numbers of what Spark keeps in memory and on disks now."""
        return set(self.context._jsc.getPersistentRDDs().keySet())

    def __call__(self, frame, batch):
        self.sink(frame, batch)
        new = {path: size for path, size in self.files().items() if path not in self.before}
        self.bytes.append(sum(new.values()))
        self.persisted.append(len(self.blocks() - self.kept_before))


@pytest.fixture
def watch(spark, kafka, make_topic, tmp_path):
    """Run so many batches and return what the disks held after each."""

    def run_all(batches):
        files = Files(spark, tmp_path / "in", "k string, v string")
        for number in range(batches):
            files.add(*({"k": f"{key}", "v": f"{number}-{key}"} for key in range(50)))
        sink = routed_sink(
            sink_id=f"disks-{uuid4().hex[:8]}",
            topic=make_topic(kafka, partitions=2),
            options={"kafka.bootstrap.servers": kafka.bootstrap_servers},
        )
        watched = Watched(sink, spark.sparkContext)
        frame = files.frame().selectExpr("k AS key", "v AS value")
        run(frame, watched, tmp_path / "checkpoint", limit_s=60 + batches)
        sink.close()
        assert len(watched.bytes) == batches
        return watched

    return run_all


@pytest.mark.long
def test_the_disks_stay_flat(watch):
    """After every batch its blocks and its shuffle are gone, after the first as after the last."""
    watched = watch(200)
    assert set(watched.persisted) == {0}
    # Spark deletes in its own time, but soon: not when the garbage collector comes by.
    assert min(watched.bytes[:EARLY]) == min(watched.bytes[-EARLY:]) == 0
    assert max(watched.bytes[-EARLY:]) <= 2 * A_BATCH_BYTES


def test_without_freeing_the_blocks_pile_up(watch, monkeypatch):
    """The same with blocks that are left to the garbage collector, while it does not come."""
    kept = []
    monkeypatch.setattr(RoutedPath, "free", lambda path: kept.append(path._blocks))
    watched = watch(8)
    blocks = [found for found in kept if found is not None]
    for found in blocks:
        found._jdf.logicalPlan().rdd().unpersist(True)  # noqa: FBT003
    assert watched.persisted == list(range(1, 9))


def numbers_in(servers, topic, rows):
    """Count the rows of a topic by the number that each begins with; none of them is kept."""
    wait_until_ended(servers)
    settings = {"group.id": "count", "isolation.level": "read_committed"}
    more = {"auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = Consumer(settings | more | {"bootstrap.servers": servers})
    counts, ended = np.zeros(rows, np.int64), 0
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        for _ in range(rows):
            if ended == PARTITIONS:
                break
            for message in consumer.consume(10_000, timeout=1.0):
                if message.error() is not None:
                    ended += 1
                    continue
                value = message.value()
                assert len(value) == ROW_BYTES
                counts[int.from_bytes(value[:8], "little")] += 1
    finally:
        consumer.close()
    assert ended == PARTITIONS
    return counts


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", ["local", "routed", "driver"])
def test_two_gigabytes_by_a_driver_of_one(path, private_kafka, make_topic, tmp_path):
    """A batch of twice the driver's memory is written whole, also where it was taken for small."""
    if shutil.disk_usage(tmp_path).free < 12_000_000_000:
        pytest.skip("needs 12 GB of disk")
    cluster = private_kafka()
    topic = make_topic(cluster, partitions=PARTITIONS)
    arguments = {
        "servers": cluster.bootstrap_servers,
        "topic": topic,
        "folder": str(tmp_path),
        "path": path,
        "master": "local[2]" if path == "local" else "local-cluster[2,1,1536]",
        "rows": LARGE_ROWS,
        "row_bytes": ROW_BYTES,
    }
    try:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), json.dumps(arguments)],
            capture_output=True,
            text=True,
            check=False,
            timeout=800,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        said = json.loads(done.stdout.splitlines()[-1])
        assert said["rows"] == LARGE_ROWS
        assert said["bytes"] > 2**31
        assert said["resident_bytes"] < 2**30
        assert said["heap_bytes"] <= 2**30
        assert (numbers_in(cluster.bootstrap_servers, topic, LARGE_ROWS) == 1).all()
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)
