"""A driver in task scope in a process of its own, which kills itself between two commits.

Arguments, as JSON: servers, topic, sink_id, folder, tasks; optionally commits: how many commits it
lives for. Or committables: commit each of them so many `times`, and say how often that was right.
"""

import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.task_drivers import TaskSinkStage

from twophase.commit.naming import SinkName
from twophase.kafka.task_sink import KafkaTaskSink


class Mortal(KafkaTaskSink):
    """Dies instead of the commit after the last that it is to make."""

    commits = None

    def commit(self, committable):
        if self.commits == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        super().commit(committable)
        if self.commits is not None:
            self.commits -= 1


def main(arguments):
    broker = SimpleNamespace(bootstrap_servers=arguments["servers"])
    name = SinkName(arguments["sink_id"])
    stage = TaskSinkStage(broker, arguments["topic"], Path(arguments["folder"]), name=name)
    sink = Mortal(stage.parsed, stage.topic, stage.topic)
    if "committables" in arguments:
        for _ in range(arguments["times"]):
            for each in arguments["committables"]:
                sink.commit(each)
    else:
        sink.commits = arguments.get("commits")
        stage.driver(sink).write(0, arguments["tasks"])
    sys.stdout.write("done\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
