"""A driver of PostgreSQL in task scope in a process of its own: see `support.task_loop`.

Further arguments: url and table. Statements are steps as well.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import pyarrow as pa
from support import statements
from support.steps import steps_of
from support.task_loop import drive

from twophase.postgres.table import PostgresTable


def rows(*ids):
    """Rows of ids."""
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())})


def main(arguments):
    """Write all batches that are not done yet."""
    steps = steps_of(arguments)
    statements.watch(steps)
    drive(arguments, steps, PostgresTable(arguments["url"], arguments["table"]), rows)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
