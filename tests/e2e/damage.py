"""Spark runs single tasks again over rows in another order: with the defences, and without.

A program of its own, with executors in JVMs of their own. It makes Spark do the same harm to each
scenario: a part of one encode task's shuffle output is destroyed on the disk, so that one reader of
it fails and Spark runs that encode task again, while another reader has its version already. The
user's rows come in another order in each attempt, as they may behind any shuffle.

Arguments, as JSON: servers, folder, and scenarios: the topic of each by its name.
"""

import json
import os
import random
import signal
import struct
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from support.streams import routed_sink

from twophase import configure_spark
from twophase.commit.summary import Summary
from twophase.kafka import delivery
from twophase.kafka.identity import TopicPartition
from twophase.kafka.options import KafkaOptions
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire
from twophase.spark import routed_path, worker_path
from twophase.spark.placing import placed
from twophase.spark.routed import ORDER, SPARK_SCHEMA, blocks_of
from twophase.spark.tasks import SENT_SCHEMA, EncodeTask, SendTask

ROWS = 600
PARTITIONS = 2
BLOCK_BYTES = 20_000
WAIT_S = 60.0
NOTICES = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"


def wait_for(found, what):
    """Return what `found` finds, as soon as it finds something."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.01)
    raise TimeoutError(what)


def noted(folder, pattern):
    """Return a function that finds the notes that tasks have left."""
    return lambda: sorted(Path(folder).glob(pattern))


class Disorder:
    """The user's own step: rows in another order in each attempt.

    In its first round both encode tasks run at once, so each on an executor of its own. Task 1 ends
    only when task 0 has ended, and the part of task 0's output that is for routed partition 1 is
    destroyed.
    """

    def __init__(self, folder, local, *, busy):
        self.folder, self.local, self.busy = folder, local, busy

    def __call__(self, batches):
        rows = [row for batch in batches for row in batch.column(0).to_pylist()]
        context = TaskContext.get()
        task, attempt = context.partitionId(), context.taskAttemptId()
        random.Random(attempt).shuffle(rows)
        first = not (self.folder / "destroyed").exists()
        (self.folder / f"encode-{task}-{attempt}").touch()
        if first:
            wait_for(noted(self.folder, f"encode-{1 - task}-*"), "the other encode task")
        if first and task == 1:
            self.destroy()
        yield pa.RecordBatch.from_pydict({"value": rows})

    def destroy(self):
        """Overwrite a part of the other task's output, once its executor is busy elsewhere."""
        attempt = noted(self.folder, "encode-0-*")()[0].name.rpartition("-")[2]
        output = f"**/shuffle_*_{attempt}_0"
        (bytes_,) = wait_for(noted(self.local, f"{output}.data"), "the output of encode task 0")
        (index,) = noted(self.local, f"{output}.index")()
        if self.busy:
            wait_for(noted(self.folder, "busy"), "the other executor's other work")
        places = struct.unpack(f">{PARTITIONS + 1}q", index.read_bytes())
        with bytes_.open("r+b") as data:
            data.seek(places[1])
            data.write(b"\xff" * (places[2] - places[1]))
        (self.folder / "destroyed").touch()


class Work:
    """A job that keeps the executor of encode task 0 busy until that task was run again.

    So the routed partitions are read one after the other on the other executor, which keeps what it
    has made: 0 before the harm shows, 1 after it.
    """

    def __init__(self, spark, folder):
        self.context, self.folder = spark.sparkContext, folder
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        wait_for(noted(self.folder, "encode-1-*"), "encode task 1")
        folder = self.folder

        def task(_):
            (folder / "busy").touch()
            wait_for(lambda: len(noted(folder, "encode-0-*")()) > 1, "encode task 0 again")

        self.context.parallelize([0], 1).foreach(task)


class Held:
    """A send task that stops after its first block until another one has sent the same partition.

    Only routed partition 0 is held; every start is noted.
    """

    def __init__(self, task, folder, servers):
        self.task, self.folder, self.servers = task, folder, servers

    def __call__(self, batches):
        context = TaskContext.get()
        routed, attempt = context.partitionId(), context.attemptNumber()
        note = self.folder / f"send-{routed}-{attempt}-{context.taskAttemptId()}"
        # The first row is read before anything is noted: a task whose input cannot be read sends
        # nothing.
        rows = self.one_by_one(batches)
        first = next(rows)
        held = routed == 0 and not noted(self.folder, "send-0-*")()
        note.touch()
        if routed == 0 and not held:
            wait_for(noted(self.folder, "written"), "the first block of the other sender")
        # Each block goes as soon as the next one is there, so that the first is not held, too.
        bytes_, delivery.TOGETHER_BYTES = delivery.TOGETHER_BYTES, 1
        try:
            yield from self.task(self.all_of(first, rows, held=held))
        finally:
            delivery.TOGETHER_BYTES = bytes_
        (self.folder / f"done-{note.name}").touch()

    @staticmethod
    def one_by_one(batches):
        for batch in batches:
            for at in range(len(batch)):
                yield batch.slice(at, 1)

    def all_of(self, first, rows, *, held):
        yield first
        blocks = 0
        for row in (first, *rows):
            if row is not first:
                yield row
            block = next(blocks_of([row]), None)
            blocks += block is not None
            if held and blocks > 1 and block is not None:
                wait_for(partial(self.end, block.topic, block.partition), "the first block")
                (self.folder / "written").touch()
                wait_for(noted(self.folder, "done-send-0-*"), "the other sender")
                held = False

    def end(self, topic, partition):
        """Return where the partition ends, whoever may read it."""
        # Spark cannot send these classes to an executor with the task.
        from confluent_kafka import Consumer  # noqa: PLC0415
        from confluent_kafka import TopicPartition as Place  # noqa: PLC0415

        settings = {"group.id": "end", "isolation.level": "read_uncommitted"}
        consumer = Consumer(settings | {"bootstrap.servers": self.servers})
        try:
            return consumer.get_watermark_offsets(Place(topic, partition), timeout=10)[1]
        finally:
            consumer.close()


class Murderous:
    """A send task that kills its executor's JVM, or its own worker, once, after its first rows.

    Every start is noted, with the epoch.
    """

    def __init__(self, task, folder, *, executor):
        self.task, self.folder, self.whole = task, folder, executor

    def __call__(self, batches):
        context = TaskContext.get()
        routed, attempt = context.partitionId(), context.attemptNumber()
        epoch = self.task.identity.epoch
        (self.folder / f"send-{routed}-{attempt}-{context.taskAttemptId()}-{epoch}").touch()
        yield from self.task(self.watched(batches))

    def watched(self, batches):
        for batch in batches:
            yield batch
            try:
                (self.folder / "killed").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(self.executor() if self.whole else os.getpid(), signal.SIGKILL)
            time.sleep(WAIT_S)

    @staticmethod
    def executor():
        """Return the nearest process above this one that is Java: the executor, not the driver."""
        pid = os.getppid()
        while Path(f"/proc/{pid}/exe").readlink().name != "java":
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return pid


def trusting(parts, **_due):
    """Take the blocks for whole: a check that looks at labels only and never at manifests."""
    from twophase.commit.manifest import _summaries  # noqa: PLC0415

    found = [summary for part in parts for summary in _summaries(part.labels)]
    return Summary(tuple(sorted(found)))


class Program:
    """The scenarios, one after the other, in one session."""

    def __init__(self, spark, arguments):
        self.spark, self.servers = spark, arguments["servers"]
        self.folder, self.local = Path(arguments["folder"]), Path(arguments["folder"]) / "local"
        self.options = {
            "kafka.bootstrap.servers": self.servers,
            "kafka.batch.size": BLOCK_BYTES,
        }
        self.source = self.folder / "source"
        self.source.mkdir()
        values = (f"{number:06d}-{'x' * 100}" for number in range(ROWS))
        (self.source / "rows.txt").write_text("\n".join(values) + "\n")

    def disordered(self, frame, name, *, busy=False):
        """Return the rows behind a shuffle and the user's own step."""
        folder = self.folder / name
        folder.mkdir()
        step = Disorder(folder, self.local, busy=busy)
        return frame.repartition(PARTITIONS, "value").mapInArrow(step, "value string")

    def query(self, frame, name, topic):
        """Run a query with the sink itself."""
        sink = routed_sink(sink_id=f"{name}-{topic}", topic=topic, options=self.options)
        query = (
            frame.writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(self.folder / name / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def mixed(self, name, topic, *, noticed):
        """Let two versions of a batch come together; whether Spark looks for that itself."""
        self.spark.conf.set(NOTICES, noticed)
        frame = self.spark.readStream.text(str(self.source))
        frame = self.disordered(frame, name, busy=True)
        work = Work(self.spark, self.folder / name)
        self.query(frame, name, topic)
        work.thread.join()

    def noticed(self, topic):
        """Spark sees that a task's second output differs from its first, and gives up the job."""
        self.mixed("noticed", topic, noticed=True)

    def checked(self, topic):
        """Spark sees nothing, as before version 4.1; the sink as it is."""
        self.mixed("checked", topic, noticed=False)

    def trusted(self, topic):
        """Spark sees nothing, and the driver trusts the blocks."""
        check = worker_path.check
        worker_path.check = trusting
        try:
            self.mixed("trusted", topic, noticed=False)
        finally:
            worker_path.check = check

    def from_shuffle(self, topic):
        """The send tasks read the shuffle itself, and nothing is materialised."""
        self.spark.conf.set(NOTICES, value=False)
        frame = self.disordered(self.spark.read.text(str(self.source)), "from_shuffle")
        options = KafkaOptions.parse(self.options)
        task = EncodeTask(options, topic, {topic: PARTITIONS}, PARTITIONS, now_ms())
        encoded = frame.mapInArrow(task, SPARK_SCHEMA)
        routed = placed(encoded, "routed", PARTITIONS)
        with Wire(options) as wire:
            transactions = Transactions(wire)
            identity = transactions.own(f"shuffle-{topic}")
            places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
            transactions.add_partitions(identity, places)
            task = Held(SendTask(options, identity), self.folder / "from_shuffle", self.servers)
            sent = routed.sortWithinPartitions(*ORDER).mapInArrow(task, SENT_SCHEMA).collect()
            transactions.commit(identity)
        return sum(row.rows for row in sent)

    def killed(self, name, topic, *, executor):
        """Send as the sink does, from materialised blocks, and kill something in it."""
        folder = self.folder / name
        folder.mkdir()
        task = routed_path.SendTask
        routed_path.SendTask = lambda *given: Murderous(task(*given), folder, executor=executor)
        try:
            self.query(self.spark.readStream.text(str(self.source)), name, topic)
        finally:
            routed_path.SendTask = task

    def executor_lost(self, topic):
        """An executor is killed in the send."""
        self.killed("executor_lost", topic, executor=True)

    def worker_lost(self, topic):
        """The Python worker of a send task is killed, and the blocks are still there."""
        self.killed("worker_lost", topic, executor=False)


def now_ms():
    """Return the present."""
    return int(time.time() * 1000)


def main(arguments):
    """Run the scenarios and print what each has said."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": PARTITIONS,
        "spark.sql.adaptive.enabled": "false",
        "spark.local.dir": str(Path(arguments["folder"]) / "local"),
        "spark.executor.memory": "512m",
        "spark.default.parallelism": PARTITIONS,
    }
    builder = SparkSession.builder.master("local-cluster[2,1,512]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = configure_spark(builder).getOrCreate()
    spark.sparkContext.setLogLevel(arguments.get("log", "ERROR"))
    program = Program(spark, arguments)
    said = {}
    for name, topic in arguments["scenarios"].items():
        began = time.monotonic()
        said[name] = {}
        try:
            said[name]["rows"] = getattr(program, name)(topic)
        except Exception as error:  # noqa: BLE001 - told to the test, which knows what to expect
            said[name]["error"] = str(error)
        said[name]["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(said))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
