"""A query from files to four sinks by `fan_out`, in a process of its own, killed at a commit.

Arguments, as JSON: source, checkpoint, servers, topic, task_topic, url, table, folder, sink_id;
optionally die: a sink's place, a batch, and "before" or "after", where the driver kills itself at
the commit of that sink's part of that batch. Of several commits it is the first. The sinks are the
package's own; what commits in them is wrapped here.
"""

import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import psycopg
from support.files_query import commit_in_turn, quick_session, use_up

from twophase import KafkaSink, PostgresSink, TaskSink, fan_out
from twophase.kafka.store import KafkaStore
from twophase.kafka.task_sink import KafkaTaskSink
from twophase.postgres.markers import MARKERS

EXAMPLE = Path(__file__).parents[2] / "examples" / "parquet_folder.py"
sys.path.insert(0, str(EXAMPLE.parent))
ParquetFolder = import_module("parquet_folder").ParquetFolder


class Placed:
    """A sink at its place in the fan; notes which batch it has in hand."""

    in_hand = None

    def __init__(self, place, sink, columns):
        self.place, self.sink, self.columns = place, sink, columns
        self.sink_id = sink.sink_id

    def __call__(self, frame, batch_id):
        Placed.in_hand = [self.place, batch_id]
        self.sink(frame.selectExpr(self.columns), batch_id)
        Placed.in_hand = None


class Mortal:
    """Kills the driver at the commit of what is in hand, if that is what it is to die of."""

    def __init__(self, where, when):
        self.where, self.when = where, when

    def at(self, when):
        if self.where == Placed.in_hand and when == self.when:
            os.kill(os.getpid(), signal.SIGKILL)

    def wrap(self, kind):
        """A class whose method `commit` commits."""
        commit = kind.commit

        def committed(*args):
            self.at("before")
            result = commit(*args)
            self.at("after")
            return result

        kind.commit = committed

    def wrap_statements(self):
        """The COMMIT that comes after a marker's move."""
        execute, command = psycopg.Connection.execute, psycopg.Connection._exec_command
        moved = []

        def executed(connection, query, *args, **more):
            text = query if isinstance(query, str) else query.as_string(connection)
            if MARKERS in text and "SET batch" in text:
                moved.append(Placed.in_hand)
            return execute(connection, query, *args, **more)

        def commanded(connection, text, *args, **more):
            here = text == b"COMMIT" and self.where in moved
            if here:
                self.at("before")
            result = yield from command(connection, text, *args, **more)
            if here:
                self.at("after")
            return result

        psycopg.Connection.execute, psycopg.Connection._exec_command = executed, commanded


def make_mortal(place, batch, when):
    """Let the driver die."""
    mortal = Mortal([place, batch], when)
    if place == 2:
        mortal.wrap_statements()
    else:
        mortal.wrap({0: KafkaStore, 1: KafkaTaskSink, 3: ParquetFolder}[place])


def sinks_of(arguments):
    """All four, in their order."""
    options = {"kafka.bootstrap.servers": arguments["servers"]}
    name = arguments["sink_id"]
    to_table = PostgresSink(arguments["url"], arguments["table"], sink_id=f"{name}-2")
    to_folder = TaskSink(ParquetFolder(arguments["folder"]), sink_id=f"{name}-3")
    value = "cast(id as string) as value"
    return [
        Placed(0, KafkaSink(sink_id=f"{name}-0", topic=arguments["topic"], options=options), value),
        Placed(
            1,
            KafkaSink(
                sink_id=f"{name}-1", topic=arguments["task_topic"], options=options, scope="task"
            ),
            value,
        ),
        Placed(2, to_table, "id"),
        Placed(3, to_folder, "id"),
    ]


def main(arguments):
    """Run the query until its source is used up."""
    if "die" in arguments:
        make_mortal(*arguments["die"])
    # The first of several commits is made alone.
    commit_in_turn()
    spark = quick_session()
    spark.sparkContext.addPyFile(str(EXAMPLE))
    use_up(spark, arguments, fan_out(*sinks_of(arguments)))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
