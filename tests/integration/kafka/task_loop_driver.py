"""A driver of Kafka in task scope in a process of its own: see `support.task_loop`.

Further arguments: servers, topic, options. Requests to the brokers are steps as well, where they
change something there.
"""

import json
import sys
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow as pa
from support.steps import steps_of
from support.task_loop import drive

from twophase.kafka.options import KafkaOptions
from twophase.kafka.task_sink import KafkaTaskSink
from twophase.kafka.wire import Wire

READS = {
    "ApiVersionsRequest",
    "DescribeConfigsRequest",
    "DescribeTransactionsRequest",
    "FindCoordinatorRequest",
    "ListTransactionsRequest",
    "MetadataRequest",
    "OffsetFetchRequest",
}


def watch(steps):
    """Make a step of every request that changes something at the brokers; not where it is tried on.

    How often that happens is not the same in every run.
    """
    ask, submit, seen = Wire.ask, Wire.submit, set()

    @contextmanager
    def step(request):
        name = type(request).__name__
        about = tuple(getattr(request, each, None) for each in ("transactional_id", "group_id"))
        key = (len(steps.names) - len(seen), name, about)
        if name in READS or key in seen:
            yield
            return
        seen.add(key)
        with steps.step(name):
            yield

    def asked(self, request, node=None):
        with step(request):
            return ask(self, request, node)

    def submitted(self, request, node, done):
        with step(request):
            submit(self, request, node, done)

    Wire.ask, Wire.submit = asked, submitted


def rows(*ids):
    """Rows that carry their identity."""
    values = [json.dumps(each).encode() for each in ids]
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})


def main(arguments):
    """Write all batches that are not done yet."""
    steps = steps_of(arguments)
    watch(steps)
    given = {"kafka.bootstrap.servers": arguments["servers"], **arguments["options"]}
    sink = KafkaTaskSink(KafkaOptions.parse(given), arguments["topic"], arguments["topic"])
    drive(arguments, steps, sink, rows)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
