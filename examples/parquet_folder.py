"""A folder of Parquet files, written exactly once: a sink of one's own in under 50 lines.

A transaction is a hidden folder of files, and its commit one atomic rename. Readers that skip
hidden names, as Spark and Arrow do, see all rows of a committable or none.
"""

import shutil
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from twophase import CommittableLost, TwoPhaseCommitSink


class ParquetFolder(TwoPhaseCommitSink):
    """Rows to `folder`, which all executors and the driver reach under this path."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def begin(self, attempt):
        staging = self.folder / f".{attempt.name.replace('/', '~')}"
        staging.mkdir(parents=True)
        return staging

    def write(self, staging, rows):
        files = len(list(staging.iterdir()))
        parquet.write_table(pa.Table.from_batches([rows]), staging / f"{files:06d}.parquet")

    def prepare(self, staging):
        return {"staging": staging.name}

    def commit(self, committable):
        staging = self.folder / committable["staging"]
        final = self.folder / committable["staging"].removeprefix(".")
        try:
            staging.rename(final)
        except FileNotFoundError:
            if not final.exists():
                raise CommittableLost(f"neither {staging} nor {final} is there") from None

    def abort(self, staging):
        shutil.rmtree(staging, ignore_errors=True)

    def recover(self, stale):
        for staging in self.folder.glob(".*"):
            if staging.name.removeprefix(".").replace("~", "/") in stale:
                self.abort(staging)
