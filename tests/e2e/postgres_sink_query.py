"""A query from files to PostgreSQL in batch scope, in a process of its own.

Arguments, as JSON: source, checkpoint, url, table, sink_id; optionally master and conf of the
session; die: a batch and "before" or "after", where the driver kills itself at the COMMIT of that
batch; and kill_executor: a file that remembers that a task has killed its own executor's JVM, once,
while it was copying. The sink is the package's own, wrapped here.
"""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from support.files_query import quick_session, use_up

from twophase import PostgresSink
from twophase.postgres.markers import MARKERS
from twophase.spark import postgres_sink


class Murderous:
    """A task that kills the JVM of its own executor once, after its first rows were copied."""

    def __init__(self, task, memory):
        self.task, self.memory = task, memory

    def __call__(self, batches):
        yield from self.task(self.watched(batches))

    def watched(self, batches):
        for batch in batches:
            yield batch
            try:
                Path(self.memory).touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(self.executor(), signal.SIGKILL)

    @staticmethod
    def executor():
        """Return the nearest process above this one that is Java: the executor, not the driver."""
        pid = os.getppid()
        while Path(f"/proc/{pid}/exe").readlink().name != "java":
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return pid


def make_murderous(memory):
    """Wrap the tasks."""
    task = postgres_sink.StageTask
    postgres_sink.StageTask = lambda stage: Murderous(task(stage), memory)


def make_mortal(number, when):
    """Let the driver die at the COMMIT of a batch: the one that comes after its marker's move."""
    execute, command = psycopg.Connection.execute, psycopg.Connection._exec_command
    moves = []

    def executed(self, query, *args, **more):
        text = query if isinstance(query, str) else query.as_string(self)
        if MARKERS in text and "SET batch" in text:
            moves.append(text)
        return execute(self, query, *args, **more)

    def commanded(self, text, *args, **more):
        here = text == b"COMMIT" and len(moves) > number
        if here and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = yield from command(self, text, *args, **more)
        if here:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    psycopg.Connection.execute = executed
    psycopg.Connection._exec_command = commanded


def main(arguments):
    """Run the query until its source is used up."""
    if arguments.get("kill_executor"):
        make_murderous(arguments["kill_executor"])
    if arguments.get("die"):
        make_mortal(*arguments["die"])
    spark = quick_session(arguments.get("master", "local[2]"), arguments.get("conf"))
    sink = PostgresSink(arguments["url"], arguments["table"], sink_id=arguments["sink_id"])
    use_up(spark, arguments, sink)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
