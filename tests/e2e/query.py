"""A Kafka -> Spark -> Kafka query in a process of its own, whose executor can be told to die.

Arguments, as JSON: servers, source, target, checkpoint, sink_id, rows_per_batch, path; optionally
master and conf of the session, and kill_executor: the task ("encode" or "send") that kills its own
executor's JVM once, and a file that remembers it. The tasks are the package's own, wrapped here:
nothing in the package knows of this.
"""

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from twophase import configure_spark
from twophase.spark import routed_path, worker_path
from twophase.spark.kafka_sink import KafkaSink


class Murderous:
    """A task that kills the JVM of its own executor once, after its first rows."""

    def __init__(self, task, memory):
        self.task, self.memory = task, memory

    def __call__(self, batches):
        yield from self.task(self.watched(batches))

    def watched(self, batches):
        for batch in batches:
            yield batch
            try:
                Path(self.memory).touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(self.executor(), signal.SIGKILL)

    @staticmethod
    def executor():
        """Return the nearest process above this one that is Java: the executor, not the driver."""
        pid = os.getppid()
        while Path(f"/proc/{pid}/exe").readlink().name != "java":
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return pid


def make_murderous(kind, memory):
    """Wrap the tasks of one kind."""
    home, name = {
        "encode": (worker_path, "EncodeTask"),
        "send": (routed_path, "SendTask"),
    }[kind]
    task = getattr(home, name)
    setattr(home, name, lambda *args, **more: Murderous(task(*args, **more), memory))


def main(arguments):
    """Run the query until its source is used up."""
    if arguments.get("kill_executor"):
        make_murderous(*arguments["kill_executor"])
    builder = SparkSession.builder.master(arguments.get("master", "local[2]"))
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    for key, value in (settings | arguments.get("conf", {})).items():
        builder = builder.config(key, value)
    spark = configure_spark(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    servers = arguments["servers"]
    sink = KafkaSink(
        sink_id=arguments["sink_id"],
        topic=arguments["target"],
        options={"kafka.bootstrap.servers": servers},
        path=arguments["path"],
    )
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", arguments["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", arguments["rows_per_batch"])
        .load()
        .select("key", "value")
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", arguments["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(json.dumps({"batches": query.lastProgress.batchId + 1 if query.lastProgress else 0}))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
