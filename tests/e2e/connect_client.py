"""A client of a real Spark Connect server, in a process of its own, that does as it is told.

A process is a client of Connect or has a classic session. So this one starts a server and connects
to it, then takes one order after the other as a line of JSON: the name of a function below and its
arguments. The answer is a line of JSON too, behind a word that tells it from Spark's own.
"""

import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.session import SparkSession as ClassicSession

from twophase import KafkaSink, configure_spark
from twophase.kafka.store import KafkaStore
from twophase.observe import BatchRecord
from twophase.spark.connect import slots
from twophase.spark.routed_path import RoutedPath

ANSWER = "ANSWER "


class Note:
    """A hook that writes into a file: it runs in the server's process for the query."""

    def __init__(self, file):
        self.file = file

    def __call__(self, record: BatchRecord):
        said = [record.batch, record.outcome, record.path, record.rows, os.getpid()]
        with Path(self.file).open("a") as file:
            file.write(json.dumps(said) + "\n")


class Dying(KafkaSink):
    """A sink whose process dies by kill -9 right before or after it commits its first rows."""

    when = None

    def __call__(self, frame, batch_id):
        commit, when = KafkaStore.commit, self.when
        marked = KafkaStore.write_marker

        def fatal(store, identity):
            if when == "before" and store.with_rows:
                os.kill(os.getpid(), signal.SIGKILL)
            result = commit(store, identity)
            if store.with_rows:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        def watched(store, identity, effect):
            # A new sink's first marker is without rows, and of the batch before.
            store.with_rows = effect.batch == batch_id
            return marked(store, identity, effect)

        KafkaStore.commit, KafkaStore.write_marker = fatal, watched
        super().__call__(frame, batch_id)


def sink_of(sink, *, notes=None, die=None):
    """Return the sink of these settings."""
    made = (Dying if die else KafkaSink)(**sink, hooks=[Note(notes)] if notes else [])
    if die:
        made.when = die
    return made


@contextmanager
def classic():
    """Make this process one of classic mode for a while, by the session that the server runs in."""
    named = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    hidden = {name: os.environ.pop(name) for name in named if name in os.environ}
    try:
        yield ClassicSession._instantiatedSession
    finally:
        os.environ.update(hidden)


def stream_classic(_spark, **arguments):
    """Do as `stream` does, in classic mode."""
    with classic() as session:
        return stream(session, **arguments)


def started(writer, tries=5):
    """Start a query; a busy machine may take longer for a worker than Spark waits."""
    for left in reversed(range(tries)):
        try:
            return writer.start()
        except Exception as error:
            if not left or "waiting for the Python worker to connect back" not in str(error):
                raise
    return None


def stream(spark, *, source, columns, checkpoint, sink, notes, die=None):
    """Run a query until its source is used up; return its id, the notes and the error, if any."""
    Path(notes).unlink(missing_ok=True)
    reader = spark.readStream.format(source["format"]).options(**source["options"])
    if "schema" in source:
        reader = reader.schema(source["schema"])
    writer = reader.load(source.get("path")).selectExpr(*columns).writeStream
    writer = writer.foreachBatch(sink_of(sink, notes=notes, die=die))
    query = started(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True))
    error = None
    try:
        ended = query.awaitTermination(100)
    except Exception as raised:  # noqa: BLE001 - the test looks at it
        ended, error = True, str(raised)
    lines = Path(notes).read_text().splitlines() if Path(notes).exists() else []
    notes = [json.loads(line) for line in lines]
    return {"id": str(query.id), "ended": ended, "notes": notes, "error": error}


def call(spark, *, number, sink):
    """Call a sink by hand, as a query would; return its error."""
    try:
        sink_of(sink)(spark.range(1).selectExpr("'never' AS value"), number)
    except Exception as raised:  # noqa: BLE001 - the test looks at it
        return [type(raised).__name__, str(raised)]
    return None


def write(spark, *, rows, columns, sink, run_id):
    """Write a batch job's rows."""
    frame = spark.range(rows).selectExpr(*columns)
    try:
        record = sink_of(sink).write(frame, run_id=run_id)
    except Exception as raised:  # noqa: BLE001 - the test looks at it
        return {"error": [type(raised).__name__, str(raised)]}
    return {"outcome": record.outcome, "path": record.path, "rows": record.rows}


def seen(spark):
    """Return what the routed path sees of the server: is a barrier needed, and its slots."""
    return [RoutedPath(spark.range(1), None, "topic")._speculates(), slots(spark)]


def persisted(spark, *, within_s):
    """Let the server collect its garbage; return how many materialised frames it then has."""
    for number in range(40):
        # The server keeps the plans of a session's last queries.
        spark.range(number).collect()
    context = SparkContext._active_spark_context
    deadline = time.monotonic() + within_s
    while True:
        context._jvm.System.gc()
        time.sleep(0.2)
        # Not getPersistentRDDs: what it returns would itself hold them.
        left = len(context._jsc.sc().getRDDStorageInfo())
        if left == 0 or time.monotonic() > deadline:
            return left


def main(settings):
    """Serve orders until there are no more."""
    builder = SparkSession.builder.remote("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = configure_spark(builder).getOrCreate()
    orders = {act.__name__: act for act in (stream, stream_classic, call, write, seen, persisted)}
    print(ANSWER + json.dumps("ready"), flush=True)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        print(ANSWER + json.dumps(orders[name](spark, **arguments)), flush=True)
    spark.stop()


if __name__ == "__main__":
    # A free port for the server: other tests may have one too.
    os.environ["SPARK_TESTING"] = "1"
    main(json.loads(sys.argv[1]))
