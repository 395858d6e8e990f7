"""A driver whose secrets must show nowhere: it shows all that it has, on good and bad ways.

Reads its settings as JSON from standard input, since arguments are seen by everybody.
"""

import json
import logging
import sys
import time
import traceback
from functools import partial

from pyspark.sql import SparkSession

from twophase import KafkaSink, PostgresSink, TaskSink, configure_spark
from twophase.postgres.table import PostgresTable


def show(*things):
    """Print what a user may print, in every form."""
    for each in things:
        print(str(each), repr(each), flush=True)


def attempt(title, act):
    """Do something that may fail, and show how."""
    print(f"== {title}, at {time.monotonic():.0f} s", flush=True)
    try:
        show(act())
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        show(error, getattr(error, "ids", None))


def read(spark, options, topic):
    """Count the rows of a topic by Spark's own source."""
    return spark.read.format("kafka").options(**options).option("subscribe", topic).load().count()


def giving(token):
    """Give a token out, as a user's own function does."""
    return token


def raising(secret):
    """Fail as badly as such a function may."""
    raise ValueError(f"nobody gives a token for {secret}")


def ways_of(options, token):
    """Return a sink's arguments for its options, among which `token` and `raises` are none."""
    options = dict(options)
    provider = partial(giving, options.pop("token", token))
    if "raises" in options:
        provider = partial(raising, options.pop("raises"))
    by_token = options.get("kafka.sasl.mechanism") == "OAUTHBEARER"
    return {"options": options} | ({"token_provider": provider} if by_token else {})


def main():
    given = json.load(sys.stdin)
    logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
    # It logs every call to the JVM, the options of a user's own source among them.
    logging.getLogger("py4j").setLevel(logging.INFO)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in given["spark"].items():
        builder = builder.config(key, value)
    spark = configure_spark(builder).getOrCreate()
    spark.sparkContext.setLogLevel("INFO")
    reader = spark.readStream.format("kafka").options(**given["source options"])
    reader = reader.option("subscribe", given["source"]).option("startingOffsets", "earliest")
    frame = reader.load().selectExpr("key", "value")

    def stream(sink, name, frame=frame):
        show(sink)
        query = (
            frame.writeStream.foreachBatch(sink)
            .option("checkpointLocation", f"{given['folder']}/{name}")
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(120)
        finally:
            query.explain(extended=True)
            show(query.lastProgress, query.exception())
        return query.id

    def kafka(options, name, **more):
        more |= ways_of(options, given["token"])
        sink = KafkaSink(sink_id=name, topic=given["target"], hooks=[show], **more)
        show(vars(sink))
        return stream(sink, name)

    good = given["options"]
    attempt("batch scope", lambda: kafka(good, "batch", path="routed"))
    attempt("task scope", lambda: kafka(good, "task", scope="task"))
    attempt(
        "job",
        lambda: (
            spark.read.format("kafka")
            .options(**given["source options"])
            .option("subscribe", given["source"])
            .load()
            .select("value")
            .explain(extended=True)
        ),
    )
    attempt(
        "own writer of Spark",
        lambda: (
            spark.range(3)
            .selectExpr("CAST(id AS STRING) AS value")
            .write.format("kafka")
            .options(**given["source options"])
            .option("topic", given["target"])
            .save()
        ),
    )
    for number, (title, wrong) in enumerate(given["wrong"].items()):
        attempt(title, lambda wrong=wrong, n=number: kafka(good | wrong, f"wrong-{n}"))
    wrong = given["wrong"]["wrong password"]
    attempt(
        "a source with a wrong password",
        lambda: read(spark, given["source options"] | wrong, given["source"]),
    )
    rows = frame.selectExpr("CAST(CAST(value AS STRING) AS INT) AS id")
    for name, url in given["urls"].items():

        def table(url=url, name=name):
            # Of the table, since a server may have served such a driver before.
            sink_id = f"{name}-{given['table']}"
            sink = PostgresSink(url, given["table"], sink_id=sink_id, hooks=[show])
            return stream(sink, name, rows)

        def prepared(url=url, name=f"{name}-task"):
            sink = PostgresTable(url, given["table"])
            show(sink)
            sink_id = f"{name}-{given['table']}"
            return stream(TaskSink(sink, sink_id=sink_id, hooks=[show]), name, rows)

        attempt(f"PostgreSQL {name}", table)
        attempt(f"PostgreSQL {name}, task scope", prepared)
    spark.stop()


if __name__ == "__main__":
    main()
