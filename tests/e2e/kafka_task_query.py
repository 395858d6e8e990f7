"""A query from files to Kafka in task scope, which kills itself between two commits.

Arguments, as JSON: source, servers, topic, sink_id, checkpoint; optionally commits: how many
commits
the driver lives for. The sink is the package's own, wrapped here.
"""

import json
import os
import signal
import sys
from functools import partial

from pyspark.sql import SparkSession

from twophase import KafkaSink, configure_spark
from twophase.kafka.task_sink import KafkaTaskSink
from twophase.spark import task_sink
from twophase.task_scope import TaskScope
from twophase.testing.mortal import InTurn


def mortal(commits):
    """Let the driver die instead of the commit after so many."""
    made, commit = [], KafkaTaskSink.commit

    def dying(self, committable):
        if len(made) == commits:
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self, committable)
        made.append(committable)

    KafkaTaskSink.commit = dying


def main(arguments):
    """Run the query until its source is used up."""
    if "commits" in arguments:
        mortal(arguments["commits"])
    # One commit after another, so that they have one order.
    task_sink.TaskScope = partial(TaskScope, pool=InTurn)
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    )
    spark = configure_spark(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    sink = KafkaSink(
        sink_id=arguments["sink_id"],
        topic=arguments["topic"],
        options={"kafka.bootstrap.servers": arguments["servers"]},
        scope="task",
    )
    frame = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    query = (
        frame.json(arguments["source"])
        .repartition(3)
        .selectExpr("cast(id as string) as value")
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", arguments["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
