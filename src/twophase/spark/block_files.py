"""Blocks in files of one machine: each encode attempt writes its own, and the driver reads them.

Only where workers and driver share a machine. The body of a block is written once and read once;
what travels through Spark is its label, with the place in the file.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from twophase.commit.manifest import Label
from twophase.errors import SetupError
from twophase.kafka.blocks import HEADER_BYTES, Block
from twophase.sink import BlocksGone
from twophase.spark.routed import block_of, label_row, rows_batch


class BlockFile:
    """The file of one encode attempt; no other attempt writes to it, not even by its name."""

    def __init__(self, folder: str, task: int, attempt: int) -> None:
        self._path = file_of(folder, task, attempt)
        self._rows: list[dict[str, Any]] = []
        self._offset = 0
        try:
            mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            self._file = os.fdopen(os.open(self._path, mode, 0o600), "wb")
        except OSError as error:
            raise self._unwritable(error) from error

    def add(self, routed: int, label: Label, block: Block) -> Iterator[pa.RecordBatch]:
        """Write one block, and keep its label."""
        try:
            self._file.write(block.body)
        except OSError as error:
            raise self._unwritable(error) from error
        self._rows.append(label_row(routed, label, block) | {"offset": self._offset})
        self._offset += block.body.size
        yield from ()

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the labels, once every block is in the file."""
        try:
            self._file.close()
        except OSError as error:
            raise self._unwritable(error) from error
        if self._rows:
            yield rows_batch(self._rows)

    def close(self) -> None:
        """Let go of the file, also where not all was written."""
        with suppress(OSError):
            self._file.close()

    def _unwritable(self, error: OSError) -> SetupError:
        return SetupError(
            f"the blocks of a batch cannot be written to {self._path}: {error.strerror}; "
            "spark.local.dir names the folder, which needs room for a batch as it goes to Kafka"
        )


def stored_blocks(folder: str, rows: Iterable[dict[str, Any]]) -> Iterator[Block]:
    """Yield the blocks of rows that are in order of encode tasks; `BlocksGone` if a file is not.

    A file that was cut short is told by its length here, and any other damage by the checksums that
    the driver compares.
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
                    yield block_of(row, pa.py_buffer(body))
        except OSError as error:
            raise BlocksGone(f"{path} cannot be read: {error.strerror}") from error


def file_of(folder: str, task: int, attempt: int) -> Path:
    """Return where one attempt of an encode task puts its blocks."""
    return Path(folder) / f"{task}-{attempt}"
