"""A driver in task scope in a process of its own, which kills itself between two commits.

Arguments, as JSON: servers, topic, sink_id, folder, tasks; optionally commits: how many commits it
lives for. Or committables: so many `threads` commit each of them, all at once: they say that they
are ready, and begin when they are answered.
"""

import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
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


def commit_at_once(sink, committables, threads):
    """Commit each committable in each thread."""
    # The connections are there before anybody begins.
    sink.confirm(committables)
    line = threading.Barrier(threads + 1)

    def commit(number):
        line.wait(60)
        for at in range(len(committables)):
            sink.commit(committables[(number + at) % len(committables)])

    with ThreadPoolExecutor(threads) as pool:
        commits = [pool.submit(commit, number) for number in range(threads)]
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if sys.stdin.readline() != "go on\n":
            line.abort()
        line.wait(60)
        for each in commits:
            each.result(60)


def main(arguments):
    broker = SimpleNamespace(bootstrap_servers=arguments["servers"])
    name = SinkName(arguments["sink_id"])
    stage = TaskSinkStage(broker, arguments["topic"], Path(arguments["folder"]), name=name)
    sink = Mortal(stage.parsed, stage.topic, stage.topic)
    if "committables" in arguments:
        commit_at_once(sink, arguments["committables"], arguments["threads"])
    else:
        sink.commits = arguments.get("commits")
        stage.driver(sink).write(0, arguments["tasks"])
    sys.stdout.write("done\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
