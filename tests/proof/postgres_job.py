"""A batch job to PostgreSQL on a cluster, whose tasks are harmed once their rows are in the store.

Arguments, as JSON: url, table, sink_id, scope ("task" or "batch"), rows, tasks, notes, harm, log;
master and conf of the session. Each attempt leaves a file in `notes` when the server has its rows.
Then "kill" kills one executor's JVM, and "slow" lets one attempt wait. The sinks are the package's
own, wrapped here. Prints, as JSON, how often Spark has tried the stage that was tried most.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

from twophase import PostgresSink, TaskSink, configure_spark
from twophase.postgres.table import PostgresTable
from twophase.spark import postgres_sink

SLOW_S = 20.0
STAGES_MAX = 50


class Harm:
    """What happens to an attempt whose rows are in the store."""

    def __init__(self, notes, kind):
        self.notes, self.kind = Path(notes), kind

    def strike(self):
        """Note the attempt; harm it if it is the one."""
        context = TaskContext.get()
        (self.notes / f"{context.partitionId()}-{context.taskAttemptId()}").touch()
        if self.kind == "kill" and context.partitionId() == 1 and self._once():
            os.kill(self._executor(), signal.SIGKILL)
            time.sleep(SLOW_S)
        if self.kind == "slow" and context.partitionId() == 0 and self._once():
            time.sleep(SLOW_S)

    def _once(self):
        try:
            (self.notes / "harmed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    @staticmethod
    def _executor():
        pid = os.getppid()
        while Path(f"/proc/{pid}/exe").readlink().name != "java":
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return pid


class HarmedTable(PostgresTable):
    """Task scope: struck once it has prepared."""

    def __init__(self, url, table, harm):
        super().__init__(url, table)
        self.harm = harm

    def prepare(self, transaction):
        found = super().prepare(transaction)
        self.harm.strike()
        return found


class HarmedTask:
    """Batch scope: struck once its rows are staged."""

    def __init__(self, task, harm):
        self.task, self.harm = task, harm

    def __call__(self, batches):
        told = list(self.task(batches))
        self.harm.strike()
        yield from told


def main(arguments):
    """Run the job once."""
    builder = SparkSession.builder.master(arguments["master"]).config("spark.ui.enabled", "false")
    for key, value in arguments["conf"].items():
        builder = builder.config(key, value)
    spark = configure_spark(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    harm = Harm(arguments["notes"], arguments["harm"])
    url, table, sink_id = arguments["url"], arguments["table"], arguments["sink_id"]
    if arguments["scope"] == "task":
        store = HarmedTable(url, table, harm)
        sink = TaskSink(store, sink_id=sink_id, decisions=arguments["log"])
    else:
        task = postgres_sink.StageTask
        postgres_sink.StageTask = lambda stage: HarmedTask(task(stage), harm)
        sink = PostgresSink(url, table, sink_id=sink_id)
    frame = spark.range(0, arguments["rows"], 1, 4).repartition(arguments["tasks"], "id")
    record = sink.write(frame, run_id="once")
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in range(STAGES_MAX)]
    tries = 1 + max(info.currentAttemptId for info in infos if info is not None)
    spark.stop()
    sys.stdout.write(json.dumps({"rows": record.rows, "tries": tries}) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
