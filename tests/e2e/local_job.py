"""A batch job in a process of its own, under a local master, that meets with harm.

Arguments, as JSON: servers, topic, sink_id, rows; notes, a folder; kill, whether each encode task
kills its worker once, and notes that there; most_bytes, how large a file may get for a worker. The
tasks are the package's own, wrapped here.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

from twophase import configure_spark
from twophase.errors import TwoPhaseError
from twophase.spark import worker_path
from twophase.spark.kafka_sink import KafkaSink
from twophase.spark.local_path import LocalPath


class Harmed:
    """A task whose worker dies once, with its file written, or has no room for one."""

    def __init__(self, task, arguments):
        self.task, self.arguments = task, arguments

    def __call__(self, batches):
        most_bytes = self.arguments.get("most_bytes")
        if most_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))
        for rows in self.task(batches):
            if self.arguments.get("kill"):
                self.die_once()
            yield rows

    def die_once(self):
        note = Path(self.arguments["notes"]) / f"killed-{TaskContext.get().partitionId()}"
        try:
            note.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def main(arguments):
    """Write the rows, and say what became of them."""
    task, send, files = worker_path.EncodeTask, LocalPath.send, []
    worker_path.EncodeTask = lambda *given, **more: Harmed(task(*given, **more), arguments)

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
    said = {}
    try:
        record = sink.write(rows.selectExpr("CAST(id AS STRING) AS value"), run_id="r")
        said |= {"outcome": record.outcome, "files": files[0]}
    except TwoPhaseError as error:
        said["error"] = str(error)
    said["left"] = [path.name for path in Path(spark.sparkContext._temp_dir).glob("blocks-*")]
    print(json.dumps(said))
    spark.stop()
    sys.exit("error" in said)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
