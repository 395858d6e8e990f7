"""Streaming queries over files, disturbed on purpose, and a sink that takes the routed path."""

import json
import os
import time
from uuid import uuid4

from twophase.spark.kafka_sink import KafkaSink


def routed_sink(**given):
    """Make a sink whose batches go through the executors, however small they are."""
    return KafkaSink(path="routed", **given)


class Files:
    """A streaming source of JSON files: one trigger takes all that are new."""

    def __init__(self, spark, folder, schema):
        self.spark, self.folder, self.schema = spark, folder, schema
        self.folder.mkdir(parents=True)
        self.time_s = time.time() - 10_000

    def add(self, *rows):
        """Put one more file into the folder; Spark takes files in order of their time."""
        text = "".join(json.dumps(row) + "\n" for row in rows)
        hidden = self.folder / f".{uuid4().hex}"
        hidden.write_text(text)
        self.time_s += 1
        os.utime(hidden, (self.time_s, self.time_s))
        hidden.rename(self.folder / f"{uuid4().hex}.json")

    def frame(self):
        """Return the files as an unbounded DataFrame, one file to a batch."""
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        return reader.json(str(self.folder))


def run(frame, sink, checkpoint, mode="append", limit_s=120):
    """Run until the sources are used up; return Spark's last progress, raise what it raised."""
    query = (
        frame.writeStream.foreachBatch(sink)
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(limit_s)
    assert not query.isActive
    return query.lastProgress


def forget_last_commit(checkpoint):
    """Take away Spark's note that the last batch is done, as a crash before it would."""
    commits = checkpoint / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=_number)
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
    return int(last.name)


def _number(path):
    return int(path.name)
