"""A batch write without a transaction in a Spark of its own, whose worker is killed once.

Arguments, as JSON: servers, topic, guarantee, rows, memory: a file that remembers the kill. The
worker dies with -9 when some of its blocks are acknowledged and others are not sent; Spark then
starts the task again. The sender is the package's own, wrapped here.
"""

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from twophase import configure_spark
from twophase.guarantee import Guarantee
from twophase.kafka import outlets
from twophase.kafka.options import KafkaOptions
from twophase.kafka.sender import Sender
from twophase.kafka.wire import Wire
from twophase.spark import unrouted

BLOCKS = 5


class Murderous:
    """A task whose sender kills its own process once, after some blocks are acknowledged."""

    def __init__(self, task, memory):
        self.task, self.memory = task, memory
        self.dead = task.dead

    def __call__(self, batches):
        outlets.Sender = self.dying_sender()
        return self.task(batches)

    def dying_sender(self):
        memory = Path(self.memory)

        class DyingSender(Sender):
            sent = 0

            def send(self, block):
                super().send(block)
                self.sent += 1
                if self.sent == BLOCKS and not memory.exists():
                    self.flush()
                    memory.touch()
                    os.kill(os.getpid(), signal.SIGKILL)

        return DyingSender


def main(arguments):
    """Write `rows` numbers and print what the driver was told."""
    task = unrouted.UnroutedTask
    unrouted.UnroutedTask = lambda *args: Murderous(task(*args), arguments["memory"])
    builder = SparkSession.builder.master("local[1,3]").config("spark.ui.enabled", "false")
    spark = configure_spark(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.range(arguments["rows"], numPartitions=1).selectExpr(
        "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value"
    )
    options = {"kafka.bootstrap.servers": arguments["servers"], "kafka.batch.size": 1_000}
    with Wire(KafkaOptions.parse(options)) as wire:
        guarantee = Guarantee(arguments["guarantee"])
        written = unrouted.write_unrouted(frame, wire, arguments["topic"], guarantee)
    print(json.dumps({"rows": written.rows, "failed_rows": written.failed_rows}))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
