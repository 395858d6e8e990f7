"""A batch job to Kafka in task scope on a cluster, whose tasks are harmed once they have prepared.

Arguments, as JSON: servers, topic, sink_id, rows, tasks, notes, harm, log, master and conf, as in
`postgres_job`. The sink is the package's own, wrapped here.
"""

import json
import sys
from pathlib import Path

from postgres_job import STAGES_MAX, Harm
from pyspark.sql import SparkSession

from twophase import TaskSink, configure_spark
from twophase.kafka.options import KafkaOptions
from twophase.kafka.task_sink import KafkaTaskSink


class Harmed(KafkaTaskSink):
    """Struck once it has prepared."""

    harm = None

    def prepare(self, transaction):
        found = super().prepare(transaction)
        self.harm.strike()
        return found


def main(arguments):
    """Run the job once."""
    builder = SparkSession.builder.master(arguments["master"]).config("spark.ui.enabled", "false")
    for key, value in arguments["conf"].items():
        builder = builder.config(key, value)
    spark = configure_spark(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sparkContext.addPyFile(str(Path(__file__).with_name("postgres_job.py")))
    options = KafkaOptions.parse({"kafka.bootstrap.servers": arguments["servers"]})
    store = Harmed(options, arguments["topic"], arguments["topic"])
    store.harm = Harm(arguments["notes"], arguments["harm"])
    sink = TaskSink(store, sink_id=arguments["sink_id"], decisions=arguments["log"])
    frame = spark.range(0, arguments["rows"], 1, 4).repartition(arguments["tasks"], "id")
    record = sink.write(frame.selectExpr("cast(id as string) as value"), run_id="once")
    tracker = spark.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in range(STAGES_MAX)]
    tries = 1 + max(info.currentAttemptId for info in infos if info is not None)
    spark.stop()
    sys.stdout.write(json.dumps({"rows": record.rows, "tries": tries}) + "\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
