"""A folder of Parquet files, written exactly once: a sink of one's own in under 50 lines."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from pyarrow import Table, parquet

from twophase import CommittableLost, TwoPhaseCommitSink


class ParquetFolder(TwoPhaseCommitSink):
    """Rows to `folder`, which all executors and the driver reach under this path."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def begin(self, attempt):
        # Readers that skip hidden names, as Spark and Arrow do, see all rows of it or none.
        staging = self.folder / f".{attempt.name.replace('/', '~')}"
        staging.mkdir(parents=True)
        return staging

    def write(self, staging, rows):
        files = len(list(staging.iterdir()))
        parquet.write_table(Table.from_batches([rows]), staging / f"{files:06d}.parquet")

    def prepare(self, staging):
        os.sync()  # Rows outlive the machine's end; to sync these files alone takes more lines.
        return {"name": staging.name.removeprefix(".")}

    def commit(self, committable):
        final = self.folder / committable["name"]
        with suppress(FileNotFoundError):  # It has that name already, or is gone.
            (self.folder / f".{final.name}").rename(final)
        if not final.exists():
            raise CommittableLost(f"neither {final} is there nor the hidden folder of that name")
        os.sync()

    def abort(self, staging):
        with suppress(FileNotFoundError):  # A recovery was faster.
            shutil.rmtree(staging)

    def recover(self, stale):
        for staging in self.folder.glob(".*"):
            if staging.name.removeprefix(".").replace("~", "/") in stale:
                self.abort(staging)
