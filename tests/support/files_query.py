"""A query from JSON files in a process of its own: what the programs for it share."""

from functools import partial

from pyspark.sql import SparkSession

from twophase import configure_spark
from twophase.spark import task_sink
from twophase.task_scope import TaskScope
from twophase.testing.mortal import InTurn

_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def commit_in_turn():
    """Let task scope make one commit after another, so that they have one order."""
    task_sink.TaskScope = partial(TaskScope, pool=InTurn)


def quick_session(master="local[2]", conf=None):
    """Start a Spark that is there soon and says nothing."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": _JVM,
        "spark.executor.extraJavaOptions": _JVM,
    }
    builder = SparkSession.builder.master(master)
    for key, value in (settings | (conf or {})).items():
        builder = builder.config(key, value)
    spark = configure_spark(builder).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def use_up(spark, arguments, sink, *columns, schema="id long", partitions=3):
    """Write one file of the source in each batch, until there are no more; end the session."""
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    frame = reader.json(arguments["source"])
    if partitions is not None:
        frame = frame.repartition(partitions)
    query = (
        frame.selectExpr(*columns or "*")
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", arguments["checkpoint"])
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
