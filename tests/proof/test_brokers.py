"""Brokers fail under a query that a supervisor keeps running: each row once, nothing left open."""

import shutil
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest

from twophase.kafka.leaders import leaders_in, leaders_request
from twophase.kafka.wire import TRANSACTION
from twophase.verify.history import FaultInjected

from .cluster import QUICK_FAILOVER, RUN_S, cluster_trial
from .support_trials import open_ids

ROWS_PER_BATCH = 500
# Enough for the batches before, in and after one fault, however quick the machine is.
PART = 16 * ROWS_PER_BATCH
KILLS = 3
MIB = 1024 * 1024
DISK_MIB = 160

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
versions = pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
SINKS = {"batch": {"path": "routed"}, "task": {"scope": "task"}}
scopes = pytest.mark.parametrize("scope", SINKS)


def fault(trial, kind, target):
    """Put a fault into the history."""
    trial.source.history.record(FaultInjected(sink=trial.sink, kind=kind, target=target))


def begun(kafka, folder, scope, *, parts):
    """Begin a trial of so many parts, of which the source has the first."""
    return cluster_trial(
        kafka,
        folder,
        rows=parts * PART,
        fill=PART,
        rows_per_batch=ROWS_PER_BATCH,
        options=SINKS[scope],
    )


def until_open(trial):
    """Wait until a transaction of the sink is open, or of one of its tasks; return its id."""
    found = []

    def look():
        found[:] = open_ids(trial)
        return found

    trial.supervisor.wait_until(look, RUN_S)
    return found[0]


def kill_in_a_transaction(trial, node):
    """Kill a node while a transaction is open, some times with batches between; restart it.

    `node` is told the transaction's id.
    """
    for _ in range(KILLS):
        trial.supervisor.wait_for_batches(2, RUN_S)
        killed = node(until_open(trial))
        fault(trial, "kill -9", f"node {killed.node_id}")
        killed.kill()
        trial.supervisor.wait_for_batches(2, RUN_S)
        killed.start()
        trial.fill(PART)


@scopes
@versions
def test_the_coordinator_is_killed(version, scope, private_kafka, tmp_path):
    """Expected: another broker takes the id over, and the same transactions go on or are repeated.

    The broker that coordinates the transactional id, in task scope that of one of the tasks, dies
    with a transaction open, and whoever is coordinator then dies next.
    """
    kafka = private_kafka(nodes=3, version=version, properties=QUICK_FAILOVER)
    with begun(kafka, tmp_path, scope, parts=1 + KILLS) as trial:

        def coordinator(name):
            wire = trial.source.wire
            wire.forget_coordinator(TRANSACTION, name)
            return kafka.nodes[wire.coordinator(TRANSACTION, name) - 1]

        kill_in_a_transaction(trial, coordinator)
        trial.finish()
        trial.check()


@scopes
@versions
def test_a_leader_of_the_target_is_killed(version, scope, private_kafka, tmp_path):
    """Expected: the blocks go to the next leader, in the same transaction or in a repeated one."""
    kafka = private_kafka(nodes=3, version=version, properties=QUICK_FAILOVER)
    with begun(kafka, tmp_path, scope, parts=1 + KILLS) as trial:

        def leader(_):
            answer = trial.source.wire.ask(leaders_request([trial.target]))
            return kafka.nodes[leaders_in(answer)[trial.target, 0] - 1]

        kill_in_a_transaction(trial, leader)
        trial.finish()
        trial.check()


@scopes
@pytest.mark.parametrize("how", ["killed", "paused"])
def test_all_brokers_are_gone_for_a_while(how, scope, private_kafka, tmp_path):
    """Expected: nothing is written for 20 seconds; then the query goes on, or is started again."""
    kafka = private_kafka(nodes=3, properties=QUICK_FAILOVER)
    with begun(kafka, tmp_path, scope, parts=2) as trial:
        trial.supervisor.wait_for_batches(2, RUN_S)
        until_open(trial)
        fault(trial, how, "all nodes")
        for node in kafka.nodes:
            node.kill() if how == "killed" else node.pause()
        before = trial.reader.rows
        trial.supervisor.sleep(20)
        assert trial.reader.rows == before < PART
        for node in kafka.nodes:
            node.launch() if how == "killed" else node.resume()
        trial.fill(PART)
        trial.finish()
        trial.check()


@contextmanager
def small_disk(folder):
    """Mount a file system of its own in memory; only root can."""
    folder.mkdir()
    size = f"size={DISK_MIB}m"
    mount = ["mount", "-t", "tmpfs", "-o", size, "twophase-proof", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a disk that is full needs a mount of its own: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(disk):
    """Take all the space that is left, but for what a running query takes in some seconds."""
    with (disk / "ballast").open("wb") as ballast:
        while (left := shutil.disk_usage(disk).free - MIB) > 0:
            ballast.write(bytes(min(left, MIB)))
            ballast.flush()


@scopes
@pytest.mark.parametrize("version", ["4.3.1"])
def test_the_disk_of_a_broker_is_full(version, scope, private_kafka, tmp_path):
    """Expected: the broker stops by itself; with space again, and started again, each row once."""
    with small_disk(tmp_path / "disk") as disk:
        kafka = private_kafka(
            version=version, directory=disk / "kafka", properties={"log.segment.bytes": MIB}
        )
        try:
            fill_the_disk_and_go_on(kafka, disk, tmp_path, scope)
        finally:
            kafka.stop()


def fill_the_disk_and_go_on(kafka, disk, folder, scope):
    (node,) = kafka.nodes
    with begun(kafka, folder, scope, parts=3) as trial:
        trial.supervisor.wait_for_batches(2, RUN_S)
        fault(trial, "disk full", "node 1")
        fill_up(disk)
        filling = threading.Thread(target=trial.fill, args=(2 * PART,), daemon=True)
        filling.start()
        deadline = time.monotonic() + 120
        while node.running:
            assert time.monotonic() < deadline, "the broker still runs"
            trial.supervisor.sleep(0.2)
        assert trial.reader.rows < 3 * PART
        (disk / "ballast").unlink()
        node.restart()
        filling.join(120)
        assert not filling.is_alive()
        trial.finish()
        trial.check()
