"""Many processes, one identity: the ground that batch scope stands on."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from support.readers import read, values, wait_until_ended
from support.rows import blocks, named
from support.writing import send_all, write

from twophase.errors import CommitRejected, EpochStale
from twophase.kafka.identity import TopicPartition
from twophase.kafka.sender import Sender

WRITER = """
import pickle, sys
sys.path.insert(0, sys.argv[1])
from support.rows import blocks, named
from twophase.kafka.options import KafkaOptions
from twophase.kafka.sender import Sender
from twophase.kafka.wire import Wire
servers, identity, topic, partition = pickle.loads(sys.stdin.buffer.read())
with Wire(KafkaOptions.parse({"kafka.bootstrap.servers": servers})) as wire:
    sender = Sender(wire, identity)
    for part in range(10):
        for block in blocks(topic, named(f"p{partition}-{part}", 200), partition=partition):
            sender.send(block)
    (done,) = sender.flush()
    print(done.records)
"""


@pytest.fixture
def topic(broker, make_topic):
    return make_topic(broker, partitions=3)


def start_writer(broker, identity, topic, partition):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(Path(__file__).parents[2])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdin.write(pickle.dumps((broker.bootstrap_servers, identity, topic, partition)))
    process.stdin.close()
    return process


@pytest.mark.parametrize("commit", [True, False])
def test_processes_write_disjoint_partitions_and_one_end_decides(
    commit, broker, transactions, transactional_id, topic
):
    """Three processes under one producer id and epoch; one EndTxn makes all visible, or none."""
    identity = transactions.own(transactional_id)
    transactions.add_partitions(identity, [TopicPartition(topic, p) for p in range(3)])
    writers = [start_writer(broker, identity, topic, p) for p in range(3)]
    for process in writers:
        with process:
            assert process.stdout.read() == b"2000\n"
    assert values(broker.bootstrap_servers, topic) == []
    (transactions.commit if commit else transactions.abort)(identity)
    rows = read(broker.bootstrap_servers, topic)
    for partition in range(3):
        found = [row.value for row in rows if row.partition == partition]
        expected = [v for part in range(10) for v in named(f"p{partition}-{part}", 200)]
        assert found == (expected if commit else [])


def test_two_senders_of_one_partition_lose_rows_silently(
    wire, broker, transactions, transactional_id, topic
):
    """Why each partition has exactly one sender: the second one's rows are taken for repeats."""
    identity = transactions.own(transactional_id)
    write(wire, identity, blocks(topic, named("first", 5)))
    second = Sender(wire, identity)
    (claimed,) = send_all(second, blocks(topic, named("second", 5)))
    assert claimed.records == 5, "the broker acknowledges what it does not write"
    transactions.commit(identity)
    assert values(broker.bootstrap_servers, topic) == named("first", 5)


def test_a_zombie_with_an_old_epoch_writes_nothing(
    wire, broker, transactions, transactional_id, topic
):
    """A sender of a fenced owner is refused at once, and its rows never become visible."""
    old = transactions.own(transactional_id)
    zombie = Sender(wire, old)
    transactions.add_partitions(old, [TopicPartition(topic, 0)])
    send_all(zombie, blocks(topic, named("before", 2)))
    new = transactions.own(transactional_id)
    write(wire, new, blocks(topic, named("new", 2), partition=1))
    with pytest.raises(EpochStale) as caught:
        send_all(zombie, blocks(topic, named("after", 2)))
    assert caught.value.ids["epoch"] == old.epoch
    with pytest.raises(EpochStale):
        zombie.flush()
    transactions.commit(new)
    assert values(broker.bootstrap_servers, topic) == named("new", 2)


def test_a_sender_of_an_ended_transaction_is_refused(
    wire, broker, transactions, transactional_id, topic
):
    """Rows that come after the end of their transaction is written out join no other."""
    identity = transactions.own(transactional_id)
    late = Sender(wire, identity)
    transactions.add_partitions(identity, [TopicPartition(topic, 0)])
    send_all(late, blocks(topic, named("in-time", 2)))
    following = transactions.commit(identity) or transactions.reacquire(identity)
    # Until the partition has heard of the end, the rows would still belong to the same transaction;
    # a sink has every block acknowledged before it commits, so what may come then is a repeat.
    wait_until_ended(broker.bootstrap_servers)
    with pytest.raises(CommitRejected):
        send_all(late, blocks(topic, named("late", 2)))
    write(wire, following, blocks(topic, named("next", 2)))
    transactions.commit(following)
    assert values(broker.bootstrap_servers, topic) == named("in-time", 2) + named("next", 2)
