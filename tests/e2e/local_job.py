"""A batch job in a process of its own, whose encode tasks kill their worker once each.

Arguments, as JSON: servers, topic, sink_id, rows, and notes, a folder in which each task remembers
that it has killed. The tasks are the package's own, wrapped here.
"""

import json
import os
import signal
import sys
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

from twophase import configure_spark
from twophase.spark import worker_path
from twophase.spark.kafka_sink import KafkaSink
from twophase.spark.local_path import LocalPath


class Suicidal:
    """A task whose worker dies once, after its blocks are in the file and before their labels."""

    def __init__(self, task, notes):
        self.task, self.notes = task, notes

    def __call__(self, batches):
        for rows in self.task(batches):
            note = Path(self.notes) / f"killed-{TaskContext.get().partitionId()}"
            try:
                note.touch(exist_ok=False)
            except FileExistsError:
                yield rows
                continue
            os.kill(os.getpid(), signal.SIGKILL)


def main(arguments):
    """Write the rows, and say what became of them."""
    task, send, files = worker_path.EncodeTask, LocalPath.send, []
    worker_path.EncodeTask = lambda *given, **more: Suicidal(
        task(*given, **more), arguments["notes"]
    )

    def counting(path, *given):
        files.append(len(list(Path(path._folder).iterdir())))
        return send(path, *given)

    LocalPath.send = counting
    spark = (
        configure_spark(SparkSession.builder.master("local[2,4]"))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    sink = KafkaSink(
        sink_id=arguments["sink_id"],
        topic=arguments["topic"],
        options={"kafka.bootstrap.servers": arguments["servers"]},
        path="local",
    )
    rows = spark.range(arguments["rows"], numPartitions=3)
    record = sink.write(rows.selectExpr("CAST(id AS STRING) AS value"), run_id="r")
    print(json.dumps({"outcome": record.outcome, "files": files[0]}))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
