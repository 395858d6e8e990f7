"""A batch on one machine: encoded by the workers into files, checked, and sent by the driver.

With a local master, driver and workers share their disks, so the blocks need not take the way
through the JVM and its shuffle to whoever sends them. One process sends all of them: no partition
can have two senders, whatever Spark repeats.

Each encode attempt has a file of its own, and Spark hands on the labels of one attempt of each
task, the first that ended: what a repeated or a failed attempt has written is in no label. The file
that a label names was closed before the label left the worker, and is held against its checksum
when it is read.
"""

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from twophase.commit.summary import Summary
from twophase.errors import ConfigurationError
from twophase.kafka.blocks import Block
from twophase.kafka.counts import NO_LOOK
from twophase.kafka.delivery import send_shared
from twophase.kafka.identity import Identity, TopicPartition
from twophase.sink import BlocksGone
from twophase.spark.arrow_bound import arrow_bound
from twophase.spark.block_files import stored_blocks, unwritable
from twophase.spark.connect import over_connect
from twophase.spark.jobs import asked
from twophase.spark.path import Path as Way
from twophase.spark.routed import ORDER, SPARK_SCHEMA
from twophase.spark.session import IN_ONE_JVM
from twophase.spark.tasks import EncodeTask
from twophase.spark.worker_path import WorkerPath

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LocalPath(WorkerPath):
    """The blocks of one batch, in a folder of this machine."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._folder: str | None = None
        self._labels: pa.Table | None = None

    def _routed(self, partitions: int) -> int:  # noqa: ARG002 - one process sends all
        return 1

    def _encoded(
        self,
        frame: "DataFrame",
        task: Callable[..., EncodeTask],
        routed: int,  # noqa: ARG002 - one process sends all
        most_bytes: int,
    ) -> pa.Table:
        # Where Spark has its own: below spark.local.dir, and gone with the JVM at the latest.
        self._folder = _new_folder(Path(frame.sparkSession.sparkContext._temp_dir))  # noqa: SLF001
        encoded = frame.mapInArrow(task(folder=self._folder), SPARK_SCHEMA)
        with arrow_bound(frame.sparkSession, most_bytes):
            rows = asked(encoded.toArrow)
        self._labels = rows.sort_by([(name, "ascending") for name in ORDER])
        return self._labels

    def send(self, identity: Identity, summary: Summary) -> Summary:
        """Send every block from this process."""
        if self._folder is None or self._labels is None:
            raise BlocksGone("the blocks were not computed, or are freed")
        folder, rows = self._folder, self._labels.to_pylist()

        def blocks_of(places: Collection[TopicPartition]) -> Iterable[Block]:
            wanted = frozenset(places)
            mine = (row for row in rows if (row["topic"], row["partition"]) in wanted)
            return stored_blocks(folder, mine)

        # Whoever sends again asks again: a leader may be why.
        leaders, self.look = self.look.leaders, NO_LOOK
        return send_shared(self._wire, identity, summary, blocks_of, leaders)

    def free(self) -> None:
        """Delete the folder; an attempt that begins to write now finds it gone."""
        folder, self._folder, self._labels = self._folder, None, None
        if folder is None:
            return
        # A file that is made between the look into a folder and its end would keep the folder.
        gone = f"{folder}.gone"
        with suppress(FileNotFoundError):
            Path(folder).rename(gone)
            shutil.rmtree(gone)


def _new_folder(above: Path) -> str:
    try:
        # Whoever tidies temporary folders takes an empty one that is old.
        above.mkdir(mode=0o700, parents=True, exist_ok=True)
        return tempfile.mkdtemp(prefix="blocks-", dir=above)
    except OSError as error:
        raise unwritable(above, error) from error


def large_path(frame: "DataFrame", wish: Way) -> Way:
    """Return the path of batches that are not small: by files if driver and workers share a disk.

    Only a local master says that they do. Rows that Spark is to encrypt on its disks go with it. A
    wish for files is refused in both cases.
    """
    session = frame.sparkSession
    master = "Spark Connect" if over_connect(session) else str(session.sparkContext.master)
    refusal = None
    if not IN_ONE_JVM.match(master):
        refusal = (
            f"the master is {master}; blocks in files of one machine are for the masters local, "
            "local[N] and local[*]"
        )
    elif session.sparkContext._encryption_enabled:  # noqa: SLF001 - asked for by every batch
        refusal = "spark.io.encryption.enabled is true; blocks in files are not encrypted"
    if wish is Way.LOCAL and refusal is not None:
        raise ConfigurationError(f"path is 'local', and {refusal}; leave path out")
    return Way.LOCAL if refusal is None and wish is not Way.ROUTED else Way.ROUTED
