"""A query from files to Kafka with dead letters, which kills itself at a step of a batch.

Arguments, as JSON: servers, source, schema, columns, checkpoint, sink (settings of KafkaSink),
death (a step of `STEPS`, or null) and batch, the first in which it may die; optionally master. The
package's own parts are wrapped here.
"""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.files_query import commit_in_turn, quick_session, use_up

from twophase import KafkaSink
from twophase.kafka.store import KafkaStore
from twophase.kafka.task_sink import KafkaTaskSink
from twophase.spark.engine import SparkEngine

# Where a step is in batch scope, and in task scope.
STEPS = {
    "after send": ((SparkEngine, "send"), (KafkaTaskSink, "confirm")),
    "after write_marker": ((KafkaStore, "write_marker"), (KafkaTaskSink, "commit")),
    "after commit": ((KafkaStore, "commit"), (KafkaTaskSink, "recover")),
}


class Batch:
    """The number of the batch under way."""

    number = -1


def mortal(owner, name, batch):
    """Let the driver die right after this call, in this batch or a later one."""
    call = getattr(owner, name)

    def dying(self, *args, **more):
        found = call(self, *args, **more)
        if Batch.number >= batch:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, dying)


def main(arguments):
    """Run the query until its source is used up, or it dies."""
    by_task = arguments["sink"].get("scope") == "task"
    if arguments["death"]:
        mortal(*STEPS[arguments["death"]][by_task], arguments["batch"])
    commit_in_turn()
    spark = quick_session(
        arguments.get("master", "local[2]"), {"spark.sql.shuffle.partitions": "2"}
    )
    sink = KafkaSink(options={"kafka.bootstrap.servers": arguments["servers"]}, **arguments["sink"])

    def write(frame, batch_id):
        Batch.number = batch_id
        sink(frame.repartition(2), batch_id)

    use_up(
        spark,
        arguments,
        write,
        *arguments["columns"],
        schema=arguments["schema"],
        partitions=None,
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
