"""A batch on one machine: encoded by the workers into files, checked, and sent by the driver.

With a local master, driver and workers share their disks, so the blocks need not take the way
through the JVM and its shuffle to whoever sends them. One process sends all of them: no partition
can have two senders, whatever Spark repeats.

Each encode attempt has a file of its own, and Spark hands on the labels of one attempt of each
task, the first that ended: what a repeated or a failed attempt has written is in no label. The file
that a label names was closed before the label left the worker.
"""

import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twophase.commit.summary import Summary
from twophase.errors import ConfigurationError
from twophase.kafka.counts import NO_LOOK
from twophase.kafka.identity import Identity, TopicPartition
from twophase.kafka.sender import Sender
from twophase.kafka.transactions import Transactions
from twophase.sink import BlocksGone
from twophase.spark.arrow_bound import arrow_bound
from twophase.spark.block_files import stored_blocks
from twophase.spark.connect import over_connect
from twophase.spark.jobs import asked
from twophase.spark.path import Path
from twophase.spark.routed import ORDER, SPARK_SCHEMA
from twophase.spark.tasks import EncodeTask, send_all
from twophase.spark.worker_path import WorkerPath

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LocalPath(WorkerPath):
    """The blocks of one batch, in a folder of this machine."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._folder: str | None = None
        self._labels: pa.Table | None = None

    def _routed(self, partitions: int) -> int:
        del partitions
        return 1

    def _encoded(
        self, frame: "DataFrame", task: Callable[..., EncodeTask], routed: int, most_bytes: int
    ) -> pa.Table:
        del routed
        # Where Spark has its own: below spark.local.dir, and gone with the session at the latest.
        above = frame.sparkSession.sparkContext._temp_dir  # noqa: SLF001
        self._folder = tempfile.mkdtemp(prefix="blocks-", dir=above)
        encoded = frame.mapInArrow(task(folder=self._folder), SPARK_SCHEMA)
        with arrow_bound(frame.sparkSession, most_bytes):
            rows = asked(encoded.toArrow)
        self._labels = rows.sort_by([(name, "ascending") for name in ORDER])
        return self._labels

    def send(self, identity: Identity, summary: Summary) -> Summary:
        """Send every block from this process."""
        if self._folder is None or self._labels is None:
            raise BlocksGone("the blocks were not computed, or are freed")
        places = [TopicPartition(part.topic, part.partition) for part in summary.partitions]
        Transactions(self._wire).add_partitions(identity, places)
        rows = (row for row in self._labels.to_pylist() if row["topic"] is not None)
        # Whoever sends again asks again: a leader may be why.
        leaders, self.look = self.look.leaders, NO_LOOK
        with closing(Sender(self._wire, identity, leaders=leaders)) as sender:
            return send_all(sender, stored_blocks(self._folder, rows))

    def free(self) -> None:
        """Delete the folder; an attempt that still writes there finds it gone."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = self._labels = None


def large_path(frame: "DataFrame", wish: Path) -> Path:
    """Return the path of batches that are not small: by files if driver and workers share a disk.

    Only a local master says that they do; a wish for files under any other is refused.
    """
    session = frame.sparkSession
    master = "Spark Connect" if over_connect(session) else session.sparkContext.master
    local = str(master).split("[")[0] == "local"
    if wish is Path.LOCAL and not local:
        raise ConfigurationError(
            f"path is 'local', and the master is {master}; blocks in files of one machine are for "
            "the masters local, local[N] and local[*] only, so leave path out"
        )
    return Path.LOCAL if local and wish is not Path.ROUTED else Path.ROUTED
