"""Drivers of Kafka in task scope without Spark: tasks in threads' stead, one after another."""

import json
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa

from support.readers import values
from twophase.attempt import run_attempt
from twophase.commit.attempts import prefix_of
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.kafka.admin import TransactionState, describe_transaction, list_transactions
from twophase.kafka.options import KafkaOptions
from twophase.kafka.task_sink import KafkaTaskSink
from twophase.kafka.wires import shared_wire
from twophase.log.decisions import DecisionLog
from twophase.task_scope import TaskScope
from twophase.testing import LocalFolder
from twophase.testing.mortal import InTurn


def rows_of(*ids):
    """Rows that carry their identity."""
    data = [json.dumps(each).encode() for each in ids]
    return pa.RecordBatch.from_pydict({"value": pa.array(data, pa.binary())})


@dataclass
class Tasks:
    """`count` tasks of one row each; `after` is told the sink and the turn before they return."""

    sink: KafkaTaskSink
    count: int
    number: int
    losers: int = 0
    after: object = None

    def run(self, turn, _anew):
        found = []
        for task in range(self.count):
            for attempt in range(self.losers + 1):
                rows = [rows_of(100 * self.number + task)]
                found += [run_attempt(self.sink, turn.attempt(task, 10 * task + attempt), rows)]
        if self.after:
            self.after(self.sink, turn)
        return found[self.losers :: self.losers + 1]

    def execute(self):
        pass


@dataclass
class TaskSinkStage:
    """One sink of a broker: its topic, its log, and what the broker says of it."""

    broker: object
    topic: str
    folder: object
    options: dict = field(default_factory=dict)
    name: SinkName = field(default_factory=lambda: SinkName(f"task-{uuid4().hex[:10]}"))

    @property
    def prefix(self):
        return prefix_of(self.name)

    @property
    def parsed(self):
        given = {"kafka.bootstrap.servers": self.broker.bootstrap_servers, **self.options}
        return KafkaOptions.parse(given)

    @property
    def wire(self):
        return shared_wire(self.parsed)

    def sink(self, **more):
        return KafkaTaskSink(self.parsed, self.topic, self.topic, **more)

    def driver(self, sink=None, **more):
        return StageDriver(self, sink or self.sink(), more)

    def values(self):
        return sorted(
            json.loads(each) for each in values(self.broker.bootstrap_servers, self.topic)
        )

    def lingering(self):
        """What is open, of whichever driver."""
        states = (TransactionState.ONGOING,)
        found = list_transactions(self.wire, prefix=self.prefix, states=states)
        return [each.transactional_id for each in found]

    def ids(self):
        """Every transactional id of the sink's tasks that the broker knows, tickets left out."""
        names = [each.transactional_id for each in list_transactions(self.wire, prefix=self.prefix)]
        return sorted(name for name in names if "." in name.removeprefix(self.prefix))

    def state(self, committable):
        return describe_transaction(self.wire, committable["transactional_id"])


class StageDriver:
    """A driver that was started."""

    def __init__(self, stage, sink, settings):
        self.sink, self.run_id = sink, uuid4().hex
        log = DecisionLog(LocalFolder(stage.folder))
        self.scope = TaskScope(sink, log, stage.prefix, pool=InTurn, **settings)

    def write(self, number, count, *, owner="query", first_try=True, **how):
        batch = Batch(owner, number, f"h{number}", first_try=first_try)
        return self.scope.write(self.run_id, batch, Tasks(self.sink, count, number, **how))


def expected(*batches):
    """The rows of batches, each given as its number and its count of tasks."""
    return sorted(100 * number + task for number, count in batches for task in range(count))
