"""Blocks in files of one machine: each encode attempt writes its own, and the driver reads them.

Only where workers and driver share a machine. The body of a block is written once and read once;
what travels through Spark is its label, with the place in the file.
"""

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from twophase.commit.manifest import Label
from twophase.errors import SetupError
from twophase.kafka.blocks import HEADER_BYTES, Block
from twophase.kafka.summaries import checksum_of
from twophase.sink import BlocksGone
from twophase.spark.routed import block_of, label_row, rows_batch

_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class BlockFile:
    """The file of one encode attempt; no other attempt writes to it, not even by its name."""

    def __init__(self, folder: str, task: int, attempt: int) -> None:
        self._path = file_of(folder, task, attempt)
        self._rows: list[dict[str, Any]] = []
        self._offset = 0
        self._whole = False
        try:
            self._file = self._path.open("xb")
        except OSError as error:
            raise unwritable(self._path, error) from error

    def add(self, routed: int, label: Label, block: Block) -> Iterator[pa.RecordBatch]:
        """Write one block, and keep its label."""
        try:
            self._file.write(block.body)
        except OSError as error:
            raise unwritable(self._path, error) from error
        self._rows.append(label_row(routed, label, block) | {"offset": self._offset})
        self._offset += block.body.size
        yield from ()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the labels, once every block is in the file."""
        try:
            self._file.close()
        except OSError as error:
            raise unwritable(self._path, error) from error
        self._whole = True
        if self._rows:
            yield rows_batch(self._rows)

    def close(self) -> None:
        """Remove a file that is not whole: nobody will ask for it, and its disk may be full."""
        if self._whole:
            return
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
            self._file.close()


def unwritable(path: Path, error: OSError) -> SetupError:
    """Return what to tell of a disk that takes no blocks."""
    need = "it needs room for a batch as it goes to Kafka" if error.errno in _FULL else "look there"
    return SetupError(
        f"the blocks of a batch cannot be written to {path} ({error.strerror}); the folder is one "
        f'of spark.local.dir or SPARK_LOCAL_DIRS: {need}; path="routed" does without'
    )


def stored_blocks(folder: str, rows: Iterable[dict[str, Any]]) -> Iterator[Block]:
    """Yield the blocks of rows that are in order of encode tasks; `BlocksGone` if a file is not.

    Every block is held against the checksum in its label: what was written is what is sent.
    """
    for (task, attempt), group in groupby(rows, key=itemgetter("task", "attempt")):
        path = file_of(folder, task, attempt)
        try:
            with path.open("rb", buffering=0) as file:
                for row in group:
                    size = row["bytes"] - HEADER_BYTES
                    body = os.pread(file.fileno(), size, row["offset"])
                    if len(body) != size:
                        raise BlocksGone(f"{path} is cut short")
                    block = block_of(row, pa.py_buffer(body))
                    if checksum_of(block) != row["checksum"]:
                        raise BlocksGone(f"{path} was changed")
                    yield block
        except OSError as error:
            raise BlocksGone(f"{path} cannot be read: {error.strerror}") from error


def file_of(folder: str, task: int, attempt: int) -> Path:
    """Return where one attempt of an encode task puts its blocks."""
    return Path(folder) / f"{task}-{attempt}"
