"""A query from files to PostgreSQL in a process of its own.

Arguments, as JSON: source, checkpoint, url, table, sink_id; optionally commits: after how many the
driver kills itself. The sink is the package's own, wrapped here.
"""

import json
import os
import signal
import sys
from functools import partial

from pyspark.sql import SparkSession

from twophase import TaskSink, configure_spark
from twophase.postgres.table import PostgresTable
from twophase.spark import task_sink
from twophase.task_scope import TaskScope
from twophase.testing.mortal import InTurn


class Mortal(PostgresTable):
    """Lets its driver live for so many commits."""

    def __init__(self, url, table, commits):
        super().__init__(url, table)
        self.commits = commits

    def commit(self, committable):
        super().commit(committable)
        self.commits -= 1
        if not self.commits:
            os.kill(os.getpid(), signal.SIGKILL)


def main(arguments):
    """Run the query until its source is used up."""
    # One commit after another, so that the count means something.
    task_sink.TaskScope = partial(TaskScope, pool=InTurn)
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    )
    spark = configure_spark(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    store = Mortal(arguments["url"], arguments["table"], arguments.get("commits", -1))
    query = (
        spark.readStream.schema("id long")
        .option("maxFilesPerTrigger", 1)
        .json(arguments["source"])
        .repartition(3)
        .writeStream.foreachBatch(TaskSink(store, sink_id=arguments["sink_id"]))
        .option("checkpointLocation", arguments["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
