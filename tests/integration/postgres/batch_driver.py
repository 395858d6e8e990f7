"""A driver of BatchScope in a process of its own, which dies or waits at a step; no Spark.

Arguments, as JSON: url, table, name of the sink, done: a file that has how many batches are done,
as a checkpoint would; optionally at, after and act (`support.steps`). A step is a statement that it
sends, or the note that a batch is done. It ends with 0, with 3 where the sink raised an error of
its own, and says its steps.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow as pa
from support import statements
from support.steps import REFUSED, steps_of

from twophase.commit.recovery import Batch
from twophase.errors import TwoPhaseError
from twophase.options import Secret
from twophase.postgres.batch_scope import BatchScope, Staged
from twophase.postgres.columns import schema_of
from twophase.postgres.connection import connected
from twophase.postgres.target import Target

BATCHES, TASKS, ROWS = 2, 2, 3


class Tasks:
    """The tasks of a batch, one after another."""

    schema = pa.schema([("id", pa.int64())])

    def __init__(self, number):
        self.number = number

    def run(self, stage):
        staged = []
        for task in range(TASKS):
            first = (self.number * TASKS + task) * ROWS
            rows = pa.RecordBatch.from_pydict({"id": list(range(first, first + ROWS))})
            staged.append(Staged(task, task, stage.fill(task, [rows])))
        return staged

    def execute(self):
        """There is no state to advance."""


def main(arguments):
    """Write all batches that are not done yet; the first of them may be there already."""
    steps = steps_of(arguments)
    statements.watch(steps)
    url, target = Secret(arguments["url"]), Target(arguments["table"])
    with connected(url) as connection:
        schema = schema_of(connection, target.table)
    scope = BatchScope(url, target, schema, arguments["name"])
    done = Path(arguments["done"])
    first = int(done.read_text()) if done.exists() else 0
    for number in range(first, BATCHES):
        batch = Batch("query", number, f"hash-{number}", first_try=number > first)
        scope.write("run", batch, Tasks(number))
        with steps.step("note"):
            done.write_text(f"{number + 1}")
    print(json.dumps(steps.names))


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except TwoPhaseError as error:
        print(error)
        sys.exit(REFUSED)
