"""Rows regrouped into windows: as many as share their blocks, however the input is chunked."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from twophase.kafka.columns import read_rows

# Numbers about so many rows fit into a core's cache and below malloc's threshold for fresh pages:
# columns of a million rows take twice the time per row.
TILE_ROWS: Final = 2**14


def tiles(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut the batch into slices of TILE_ROWS, each with the number of its first row."""
    for first in range(0, len(batch), TILE_ROWS):
        yield first, batch.slice(first, TILE_ROWS)


class Windows:
    """Rows on their way into windows that weigh at most `limit`, or hold one row.

    Where a window ends depends on the rows alone, so that chunks do not show in the blocks. A
    window within one batch is a slice of it, without a copy.
    """

    def __init__(self, limit: int) -> None:
        self._limit = self._room = limit
        self._waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch, weights: list[int]) -> Iterator[pa.RecordBatch]:
        """Take a batch with the weights of its tiles; yield the windows that it fills."""
        begin = 0
        for (first, tile), weight in zip(tiles(batch), weights, strict=True):
            if weight <= self._room:
                self._room -= weight
                continue
            ends, start = np.cumsum(read_rows(tile).weights()), 0
            while start < len(tile):
                before = int(ends[start - 1]) if start else 0
                start = int(np.searchsorted(ends, before + self._room, side="right"))
                if start == len(tile):
                    self._room -= int(ends[-1]) - before
                    continue
                here = first + start
                if here == begin and not self._waiting:
                    here, start = here + 1, start + 1
                self._waiting.append(batch.slice(begin, here - begin))
                self._room, begin = self._limit, here
                yield self._taken()
        if begin < len(batch):
            self._waiting.append(batch.slice(begin))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield what fills no window, if anything is left."""
        if self._waiting:
            self._room = self._limit
            yield self._taken()

    def _taken(self) -> pa.RecordBatch:
        parts = [part for part in self._waiting if len(part)]
        self._waiting = []
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)
