"""A query from files to PostgreSQL in a process of its own.

Arguments, as JSON: source, checkpoint, url, table, sink_id; optionally commits: after how many the
driver kills itself. The sink is the package's own, wrapped here.
"""

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.files_query import commit_in_turn, quick_session, use_up

from twophase import TaskSink
from twophase.postgres.table import PostgresTable


class Mortal(PostgresTable):
    """Lets its driver live for so many commits."""

    def __init__(self, url, table, commits):
        super().__init__(url, table)
        self.commits = commits

    def commit(self, committable):
        super().commit(committable)
        self.commits -= 1
        if not self.commits:
            os.kill(os.getpid(), signal.SIGKILL)


def main(arguments):
    """Run the query until its source is used up."""
    # So that the count of commits means something.
    commit_in_turn()
    spark = quick_session()
    store = Mortal(arguments["url"], arguments["table"], arguments.get("commits", -1))
    use_up(spark, arguments, TaskSink(store, sink_id=arguments["sink_id"]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
