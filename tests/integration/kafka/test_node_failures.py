"""Brokers killed, paused and restarted under load: nothing lost, doubled or out of order."""

import threading
import time
from collections import defaultdict

import pytest
from support.readers import read
from support.rows import blocks
from support.writing import write

from twophase.kafka.admin import TransactionState, list_transactions
from twophase.kafka.transactions import Transactions

PARTITIONS = 6
QUICK_FAILOVER = {"broker.session.timeout.ms": 3_000, "broker.heartbeat.interval.ms": 500}


class Load(threading.Thread):
    """Transaction after transaction, each with blocks for all partitions; every fourth aborted."""

    def __init__(self, wire, topic, transactional_id):
        super().__init__(daemon=True)
        self.wire, self.topic, self.transactional_id = wire, topic, transactional_id
        self.committed, self.aborted = [], []
        self.stopping = threading.Event()
        self.failure = None

    def run(self):
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.failure = error

    def _run(self):
        transactions = Transactions(self.wire)
        identity = transactions.own(self.transactional_id)
        number = 0
        while not self.stopping.is_set():
            write(self.wire, identity, self.rows(number))
            if number % 4 == 3:
                ended = transactions.abort(identity)
                self.aborted.append(number)
            else:
                ended = transactions.commit(identity)
                self.committed.append(number)
            identity = ended or transactions.reacquire(identity)
            number += 1

    def rows(self, number):
        """Ten blocks of twenty rows for each partition, interleaved."""
        return [
            block
            for part in range(10)
            for partition in range(PARTITIONS)
            for block in blocks(
                self.topic,
                [f"{number:06d}-{part}-{row:02d}".encode() for row in range(20)],
                partition=partition,
            )
        ]

    def wait_for_more(self, count, timeout_s=60):
        """Wait until so many more transactions are committed."""
        target, deadline = len(self.committed) + count, time.monotonic() + timeout_s
        while len(self.committed) < target:
            assert self.failure is None, self.failure
            assert time.monotonic() < deadline, "no progress"
            time.sleep(0.05)

    def check(self, bootstrap_servers):
        """Every row of every committed transaction, once, in order, and no other."""
        found = defaultdict(list)
        for row in read(bootstrap_servers, self.topic):
            found[row.partition].append(row.value)
        expected = [
            f"{number:06d}-{part}-{row:02d}".encode()
            for number in self.committed
            for part in range(10)
            for row in range(20)
        ]
        for partition in range(PARTITIONS):
            assert found[partition] == expected


def kill_pause_and_restart(cluster, load):
    """Each node once: the first killed, the second paused past its session, the third killed."""
    load.wait_for_more(3)
    first, second, third = cluster.nodes
    first.kill()
    load.wait_for_more(5)
    first.restart()
    load.wait_for_more(3)
    second.pause()
    time.sleep(5)
    second.resume()
    load.wait_for_more(5)
    third.kill()
    load.wait_for_more(5)
    third.restart()
    load.wait_for_more(5)


def check_a_node_that_comes_later(cluster, connect, make_topic, transactional_id):
    """A wire that was opened while a node was down uses it once it leads a partition."""
    late = cluster.nodes[2]
    late.kill()
    deadline = time.monotonic() + 30
    while len(connect(cluster.bootstrap_servers).nodes()) == 3:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    wire = connect(cluster.bootstrap_servers)
    late.restart()
    topic = make_topic(cluster, partitions=3)
    identity = Transactions(wire).own(transactional_id)
    rows = [block for p in range(3) for block in blocks(topic, [b"row"] * 5, partition=p)]
    assert sum(done.records for done in write(wire, identity, rows)) == 15
    Transactions(wire).commit(identity)
    assert len(read(cluster.bootstrap_servers, topic)) == 15


@pytest.mark.long
@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_nodes_fail_under_load(version, private_kafka, make_topic, connect, transactional_id):
    """The load never sees an error, and a reader of another library sees exactly what it wrote."""
    cluster = private_kafka(nodes=3, version=version, properties=QUICK_FAILOVER)
    topic = make_topic(cluster, partitions=PARTITIONS)
    wire = connect(cluster.bootstrap_servers, request_timeout_ms=4_000)
    load = Load(wire, topic, transactional_id)
    load.start()
    try:
        kill_pause_and_restart(cluster, load)
    finally:
        load.stopping.set()
        load.join(60)
    assert load.failure is None
    assert len(load.aborted) > 3
    load.check(cluster.bootstrap_servers)
    ongoing = (TransactionState.ONGOING,)
    assert list_transactions(wire, prefix=transactional_id, states=ongoing) == ()
    check_a_node_that_comes_later(cluster, connect, make_topic, f"late-{transactional_id}")
