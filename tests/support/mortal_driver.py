"""A driver that has sent its rows and waits to be killed; told servers, sink id and topic."""

import sys
import time

from support.engines import RowsEngine
from support.rows import named
from twophase.commit.machine import Machine
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.kafka.options import KafkaOptions
from twophase.kafka.store import KafkaStore
from twophase.kafka.wire import Wire
from twophase.sink import write_batch


class WaitingEngine(RowsEngine):
    """All rows are sent, the commit is not asked for."""

    def send(self, identity, summary):
        super().send(identity, summary)
        print("sent", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    servers, sink_id, topic = sys.argv[1:]
    with Wire(KafkaOptions.parse({"kafka.bootstrap.servers": servers})) as wire:
        engine = WaitingEngine(wire, topic, named("killed", 5))
        batch = Batch("query-a", 0, "offsets-0", first_try=True)
        write_batch(Machine(), "run", batch, KafkaStore(wire, SinkName(sink_id), topic), engine)
