"""A query from files to Kafka in task scope, which kills itself between two commits.

Arguments, as JSON: source, servers, topic, sink_id, checkpoint; optionally commits: how many
commits the
driver lives for. The sink is the package's own, wrapped here.
"""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.files_query import commit_in_turn, quick_session, use_up

from twophase import KafkaSink
from twophase.kafka.task_sink import KafkaTaskSink


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
    commit_in_turn()
    spark = quick_session()
    sink = KafkaSink(
        sink_id=arguments["sink_id"],
        topic=arguments["topic"],
        options={"kafka.bootstrap.servers": arguments["servers"]},
        scope="task",
    )
    use_up(spark, arguments, sink, "cast(id as string) as value")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
