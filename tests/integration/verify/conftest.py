"""A topic on the real broker, written in transactions of this package, and its readers."""

import time
from contextlib import ExitStack
from uuid import uuid4

import pyarrow as pa
import pytest
from support.readers import read, wait_until_ended
from support.rows import now_ms
from support.writing import write

from twophase.kafka.options import KafkaOptions
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire
from twophase.verify.history import History, HistoryFile
from twophase.verify.reader import RunningReader
from twophase.verify.rows import Input
from twophase.verify.seen import collect

PARTITIONS = 3
BATCH_ROWS = 200
ROWS = 5 * BATCH_ROWS


class Stage:
    """One sink's topic: batches are written by hand, well or not, while a reader runs."""

    def __init__(self, servers, wire, topic, path, reader_options):
        self.servers, self.wire, self.topic = servers, wire, topic
        self.input = Input(f"run-{uuid4().hex[:8]}", ROWS, keys=17)
        self.transactional_id = f"tx-{uuid4().hex[:12]}"
        self.transactions = Transactions(wire)
        self.identity = self.transactions.own(self.transactional_id)
        self.history = HistoryFile(path)
        self.reader = RunningReader(
            reader_options,
            topic,
            self.input,
            sink="by hand",
            record=self.history.record,
            transactional_id=self.transactional_id,
        )

    def rows_of(self, numbers):
        """The rows of these numbers, in this order, as a sink's columns."""
        rows = [(self.input.key(n), self.input.value(n, now_ms())) for n in numbers]
        keys, values = zip(*rows, strict=True)
        return pa.table(
            {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
        )

    def send(self, rows):
        """Write rows into the open transaction."""
        plan = EncodePlan({self.topic: PARTITIONS}, topic=self.topic)
        write(self.wire, self.identity, encode(rows, plan, now_ms=now_ms()))

    def end(self, *, commit=True):
        act = self.transactions.commit if commit else self.transactions.abort
        self.identity = act(self.identity) or self.transactions.reacquire(self.identity)
        # EndTxn answers before readers see what it has ended.
        wait_until_ended(self.servers)

    def write(self, numbers, *, commit=True):
        """One transaction of these rows."""
        self.send(self.rows_of(numbers))
        self.end(commit=commit)

    def batch(self, number):
        """The rows of one batch."""
        return range(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)

    def wait_for_looks(self, count):
        """Let the running reader look so many times more, at what stands now."""
        looks, deadline = self.reader._looks, time.monotonic() + 20
        for _ in range(count):
            last = looks[-1:]
            while looks[-1:] == last:
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def final(self):
        """What a reader of another library sees in the end."""
        return collect(self.input, read(self.servers, self.topic))

    def leave(self):
        """End the reader's thread, whatever the test has done."""
        self.reader._stopping.set()
        self.reader._deadline_s = 0.0
        self.reader._thread.join(20)
        assert not self.reader._thread.is_alive()
        self.history.close()

    def told(self):
        return History.load(self.history.path)


@pytest.fixture
def open_stage(kafka, make_topic, tmp_path):
    """A function that opens one stage on the shared broker; its reader may bootstrap elsewhere."""
    servers = kafka.bootstrap_servers
    with ExitStack() as stack:

        def open_one(reads_at=servers):
            wire = stack.enter_context(Wire(options_of(servers)))
            path, topic = tmp_path / "history.jsonl", make_topic(kafka, PARTITIONS)
            made = Stage(servers, wire, topic, path, options_of(reads_at))
            stack.callback(made.leave)
            made.reader.start()
            return made

        yield open_one


@pytest.fixture
def stage(open_stage):
    """A stage on the shared broker."""
    return open_stage()


def options_of(servers):
    return KafkaOptions.parse({"kafka.bootstrap.servers": servers})
