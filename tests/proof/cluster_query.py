"""The query of the proof harness, with tasks that kill their executor, wait or disorder their rows.

    python cluster_query.py '{"servers": ..., "harm": {"kill": "send"}, ...}'

Beside a `QuerySettings` the one argument may have `kafka`, more options of the sink; `notes`, the
folder in which all that happens is noted; and `harm`:
kill        "encode" or "send": a task kills the JVM of its own executor, once, after its first
            rows; "between": the driver kills an executor after the blocks are made and before
            they are sent, once
slow_s      a send task of one routed partition takes so long before it sends
barrier     false: send tasks are not in a barrier stage, whatever Spark's settings are
disorder    the folder of the executors' disks: the rows come in another order in each attempt, and
            without keys; and once a part of an encode task's output is destroyed on the disk after
            another task has read the rest of it
The steps and tasks are the package's own, wrapped here: nothing in the package knows of this.
"""

import json
import os
import random
import signal
import struct
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from twophase.spark import proof_query, routed_path, worker_path
from twophase.spark.kafka_sink import KafkaSink
from twophase.spark.routed_path import RoutedPath

NOTICES = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"
WAIT_S = 60.0
PARTITIONS = 2


def once(note):
    """Tell whether this is the first to come here, in whatever process."""
    try:
        note.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def wait_for(found, what):
    """Return what `found` finds, as soon as it finds something."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if result := found():
            return result
        time.sleep(0.01)
    raise TimeoutError(what)


class Murderous:
    """A task that kills the JVM of its own executor once, after its first rows."""

    def __init__(self, task, notes):
        self.task, self.notes = task, notes

    def __call__(self, batches):
        yield from self.task(self.watched(batches))

    def watched(self, batches):
        for batch in batches:
            yield batch
            if once(self.notes / "killed"):
                os.kill(self.executor(), signal.SIGKILL)
                time.sleep(WAIT_S)

    @staticmethod
    def executor():
        """Return the nearest process above this one that is Java: the executor, not the worker."""
        pid = os.getppid()
        while Path(f"/proc/{pid}/exe").readlink().name != "java":
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return pid


class Slow:
    """A send task that notes its attempt; that of routed partition 0 takes its time."""

    def __init__(self, task, notes, slow_s):
        self.task, self.notes, self.slow_s = task, notes, slow_s

    def __call__(self, batches):
        context = TaskContext.get()
        routed, attempt = context.partitionId(), context.attemptNumber()
        (self.notes / f"send-{routed}-{attempt}-{context.taskAttemptId()}").touch()
        if routed == 0 and attempt == 0:
            time.sleep(self.slow_s)
        yield from self.task(batches)


class Disorder:
    """The user's own step: rows in another order in each attempt.

    At first both encode tasks run at once, so each on an executor of its own. Task 1 ends only when
    task 0 has ended, and the part of task 0's output for routed partition 1 is destroyed.
    """

    def __init__(self, notes, local):
        self.notes, self.local = notes, local

    def __call__(self, batches):
        rows = [row for batch in batches for row in batch.column(0).to_pylist()]
        context = TaskContext.get()
        task, attempt = context.partitionId(), context.taskAttemptId()
        random.Random(attempt).shuffle(rows)
        first = not (self.notes / "destroyed").exists()
        (self.notes / f"encode-{task}-{attempt}").touch()
        if first:
            wait_for(lambda: self.noted(f"encode-{1 - task}-*"), "the other encode task")
        if first and task == 1:
            self.destroy()
        yield pa.RecordBatch.from_pydict({"value": pa.array(rows, pa.binary())})

    def noted(self, pattern):
        return sorted(self.notes.glob(pattern))

    def destroy(self):
        """Overwrite a part of the other task's output, once its executor is busy elsewhere."""
        attempt = self.noted("encode-0-*")[0].name.rpartition("-")[2]
        output = f"**/shuffle_*_{attempt}_0"
        (data,) = wait_for(
            lambda: list(self.local.glob(f"{output}.data")), "the output of encode task 0"
        )
        (index,) = self.local.glob(f"{output}.index")
        wait_for(lambda: self.noted("busy"), "the other executor's other work")
        places = struct.unpack(f">{PARTITIONS + 1}q", index.read_bytes())
        with data.open("r+b") as file:
            file.seek(places[1])
            file.write(b"\xff" * (places[2] - places[1]))
        (self.notes / "destroyed").touch()


def keep_busy(context, notes):
    """Keep the executor of encode task 0 busy until that task was run again.

    So the routed partitions are read one after the other on the other executor, which keeps what it
    has made: 0 before the harm shows, 1 after it.
    """

    def task(_):
        (notes / "busy").touch()
        wait_for(lambda: len(list(notes.glob("encode-0-*"))) > 1, "encode task 0 again")

    def run():
        wait_for(lambda: list(notes.glob("encode-1-*")), "encode task 1")
        context.parallelize([0], 1).foreach(task)

    threading.Thread(target=run, daemon=True).start()


def disorder(notes, local):
    """Put the user's own step before the sink; Spark does not look for two versions itself."""
    writer = proof_query._writer

    def disordered(rows, *others):
        spark = rows.sparkSession
        spark.conf.set(NOTICES, value=False)
        if not (notes / "destroyed").exists():
            keep_busy(spark.sparkContext, notes)
        rows = rows.select("value").repartition(PARTITIONS, "value")
        return writer(rows.mapInArrow(Disorder(notes, local), "value binary"), *others)

    proof_query._writer = disordered


def kill_between(notes):
    """Kill an executor with -9 when the blocks are made, before the send job begins."""
    send = RoutedPath.send

    def fatal(path, *given):
        if once(notes / "killed"):
            application = path._frame.sparkSession.sparkContext.applicationId.encode()
            pids = [
                int(folder.name)
                for folder in Path("/proc").glob("[0-9]*")
                if is_executor(folder, application)
            ]
            os.kill(min(pids), signal.SIGKILL)
        return send(path, *given)

    RoutedPath.send = fatal


def is_executor(folder, application):
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    # The worker's own child is a shell script at first, which becomes the JVM.
    return application in words and any(b"CoarseGrainedExecutorBackend" in word for word in words)


def plant(harm, notes):
    """Wrap what is to do harm."""
    kill = harm.get("kill")
    if kill == "between":
        kill_between(notes)
    elif kill:
        home, name = {
            "encode": (worker_path, "EncodeTask"),
            "send": (routed_path, "SendTask"),
        }[kill]
        task = getattr(home, name)
        setattr(home, name, lambda *given, **more: Murderous(task(*given, **more), notes))
    if "slow_s" in harm:
        slow = routed_path.SendTask
        routed_path.SendTask = lambda *given: Slow(slow(*given), notes, harm["slow_s"])
    if not harm.get("barrier", True):
        RoutedPath._speculates = lambda _: False
    if "disorder" in harm:
        disorder(notes, Path(harm["disorder"]))


def main(settings):
    """Run the query."""
    kafka, notes = settings.pop("kafka", {}), Path(settings.pop("notes", "."))
    plant(settings.pop("harm", {}), notes)
    proof_query.KafkaSink = lambda *, options, **given: KafkaSink(
        options={**options, **kafka}, **given
    )
    proof_query.main(json.dumps(settings))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
