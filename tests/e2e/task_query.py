"""A query from files to a folder of Parquet in a process of its own, killed where it is told.

Arguments, as JSON: source, target, checkpoint, master, sink_id; optionally die_at and after: the
driver's step (a call to the store or to the decision log) before or after which it kills itself;
and worker_dies: a file that remembers that one worker has killed itself after it had prepared. The
sink and the log are the package's own, wrapped here: nothing in the package knows of this.
"""

import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.files_query import commit_in_turn, quick_session, use_up

from twophase import TaskSink
from twophase.spark import task_sink
from twophase.spark.log_folder import folder_at
from twophase.testing.mortal import Died, MortalFolder, Process

EXAMPLE = Path(__file__).parents[2] / "examples" / "parquet_folder.py"
sys.path.insert(0, str(EXAMPLE.parent))
ParquetFolder = import_module("parquet_folder").ParquetFolder


class Killed(Process):
    """Dies for good."""

    def step(self, act, *args):
        try:
            return super().step(act, *args)
        except Died:
            os.kill(os.getpid(), signal.SIGKILL)


class Watched(ParquetFolder):
    """The driver's calls are steps; a worker may die after it has prepared."""

    def __init__(self, folder, process, worker_dies):
        super().__init__(folder)
        self.process, self.worker_dies = process, worker_dies

    def __getstate__(self):
        """What a worker gets."""
        return vars(self) | {"process": None}

    def prepare(self, staging):
        found = super().prepare(staging)
        if self.worker_dies:
            try:
                Path(self.worker_dies).touch(exist_ok=False)
            except FileExistsError:
                return found
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    def commit(self, committable):
        self.process.step(super().commit, committable)

    def recover(self, stale):
        self.process.step(super().recover, stale)


def main(arguments):
    """Run the query until its source is used up; say how many steps it took."""
    process = Killed(arguments.get("die_at"), after=arguments.get("after", False))
    task_sink.folder_at = lambda *args: MortalFolder(folder_at(*args), process)
    # So that steps have one order.
    commit_in_turn()
    spark = quick_session(arguments["master"])
    spark.sparkContext.addPyFile(str(EXAMPLE))
    sink = TaskSink(
        Watched(arguments["target"], process, arguments.get("worker_dies")),
        sink_id=arguments["sink_id"],
    )
    use_up(spark, arguments, sink)
    sys.stdout.write(f"steps {process.steps}\n")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
