"""One sink on a real broker without Spark: its drivers, and the commands about it."""

import shlex
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from support.engines import RowsEngine
from support.readers import values
from support.rows import named as rows_named
from twophase.cli.main import run as command_line
from twophase.commit.machine import Machine
from twophase.commit.marker import offsets_hash
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.commit.refusals import named
from twophase.kafka.sink_state import look
from twophase.kafka.store import KafkaStore
from twophase.sink import write_batch


class Run:
    """One run of a query: a driver that was started, with a machine of its own."""

    def __init__(self, wire, name, topic, owner):
        self.wire, self.topic, self.owner = wire, topic, owner
        self.store = KafkaStore(wire, name, topic)
        self.machine, self.run_id = Machine(), uuid4().hex

    def write(self, number, *, planned="as before", first_try=False):
        """Write one batch; return its outcome."""
        engine = RowsEngine(self.wire, self.topic, rows_named(f"{self.owner}-batch{number}", 3))
        offsets = "" if self.owner == "run" else hash_of(number, planned)
        batch = Batch(self.owner, number, offsets, first_try)
        return write_batch(self.machine, self.run_id, batch, self.store, engine).outcome


class Sink:
    """One sink of the broker under test, and the commands about it."""

    def __init__(self, broker, wire, topic):
        self.servers, self.wire, self.topic = broker.bootstrap_servers, wire, topic
        self.name = SinkName(f"sink-{uuid4().hex[:10]}")

    def start(self, owner="query-a"):
        return Run(self.wire, self.name, self.topic, owner)

    def command(self, *arguments):
        """Run `twophase sinks ...` and return its exit code."""
        return command_line(["sinks", *arguments, "--bootstrap-server", self.servers])

    def refused(self, kind, run, number, **how):
        """Provoke a refusal; return the commands of its message, with the sink's own names."""
        with pytest.raises(kind) as caught:
            run.write(number, **how)
        said = str(named(caught.value, self.name, self.topic))
        lines = [line for line in said.splitlines() if line.startswith("  twophase sinks ")]
        assert said.endswith(lines[-1])
        return [shlex.split(line)[2:] for line in lines]

    def resolve(self, arguments):
        assert self.command(*arguments, "--yes") == 0

    def seen(self):
        """The marker and the identity: whoever takes the id or writes changes one of them."""
        now = self.look()
        return now.marker, now.transactional_id.producer_id, now.transactional_id.epoch

    def look(self):
        return look(self.wire, self.name)

    def values(self):
        return values(self.servers, self.topic)


def hash_of(number, planned="as before"):
    return offsets_hash(f"offsets of batch {number}, planned {planned}".encode())


def batches(*numbers, owner="query-a"):
    return [row for number in numbers for row in rows_named(f"{owner}-batch{number}", 3)]


def overwrite(sink, metadata):
    """Do what a tool does that resets the offsets of a group it does not know."""
    admin = AdminClient({"bootstrap.servers": sink.servers})
    place = TopicPartition(sink.topic, 0, 5, metadata)
    asked = ConsumerGroupTopicPartitions(sink.name.marker_group, [place])
    for done in admin.alter_consumer_group_offsets([asked]).values():
        done.result(timeout=30)
