"""Task scope's loop in a process of its own without Spark, which dies or waits at a step.

Arguments, as JSON, beside those of its store: prefix, folder of its log, done: a file that has how
many batches are done, as a checkpoint would, batches: how many there are; optionally on_lost, and
at, after and act (`steps.py`). Steps are the loop's calls to its sink, the files of its log, what
the store adds, and the note that a batch is done. It ends with 0, with 3 where an error of the
package was raised, and says its steps.
"""

import json
import os
import sys
from pathlib import Path

from support.program import Program
from support.steps import REFUSED, Calls
from twophase.attempt import run_attempt
from twophase.commit.recovery import Batch
from twophase.errors import TwoPhaseError
from twophase.log.decisions import DecisionLog
from twophase.task_scope import OnLost, TaskScope
from twophase.testing import LocalFolder
from twophase.testing.mortal import InTurn, MortalFolder, MortalSink

TASKS = 2


class Tasks:
    """One row for each task; the first task has an attempt that loses."""

    def __init__(self, sink, rows, number):
        self.sink, self.rows, self.number = sink, rows, number

    def run(self, turn, _anew):
        self._run(turn, 0, 90)
        return [self._run(turn, task, task) for task in range(TASKS)]

    def _run(self, turn, task, attempt):
        at = turn.attempt(task, 100 * self.number + attempt)
        return run_attempt(self.sink, at, [self.rows(TASKS * self.number + task)])

    def execute(self):
        """There is no state to advance."""


def noted(done):
    """Return how many batches are done."""
    return int(done.read_text()) if done.exists() else 0


def note(done, batches):
    """Say how many batches are done; a checkpoint never goes back."""
    if batches > noted(done):
        done.write_text(f"{batches}")


def drive(arguments, steps, sink, rows):
    """Write all batches that are not done yet; the first of them may be there already."""
    calls = Calls(steps)
    sink = MortalSink(sink, calls)
    log = DecisionLog(MortalFolder(LocalFolder(Path(arguments["folder"])), calls))
    on_lost = OnLost.parse(arguments.get("on_lost", OnLost.FAIL))
    scope = TaskScope(sink, log, arguments["prefix"], on_lost=on_lost, pool=InTurn)
    done = Path(arguments["done"])
    first = noted(done)
    try:
        for number in range(first, arguments["batches"]):
            batch = Batch("query", number, f"hash-{number}", first_try=number > first)
            scope.write("run", batch, Tasks(sink, rows, number))
            with steps.step("note"):
                note(done, number + 1)
        said, code = json.dumps(steps.names), 0
    except TwoPhaseError as error:
        said, code = str(error), REFUSED
    sys.stdout.write(f"{said}\n")
    sys.stdout.flush()
    os._exit(code)


def expected(batches):
    """The rows of so many batches."""
    return list(range(TASKS * batches))


class Loop(Program):
    """One sink with its log and checkpoint, whose driver is started again and again."""

    def __init__(self, script, folder, **arguments):
        self.done = folder / "done"
        given = {"folder": str(folder / "log"), "done": str(self.done)}
        super().__init__(script, given | arguments)
        folder.mkdir(exist_ok=True)

    def start(self, batches, **more):
        """Start a driver."""
        return super().start(batches=batches, **more)

    def run(self, batches, **more):
        """Run a driver to its end; return its code and what it said."""
        return super().run(batches=batches, **more)

    def steps(self, batches):
        """Run a driver that nothing happens to; return its steps."""
        code, said = self.run(batches)
        assert code == 0, said
        return json.loads(said)
