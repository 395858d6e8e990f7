"""Rows regrouped into windows: as many as share their blocks, however the input is chunked."""

from collections.abc import Iterable, Iterator
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


def windows(
    batches: Iterable[tuple[pa.RecordBatch, list[int]]], limit: int
) -> Iterator[pa.RecordBatch]:
    """Regroup the rows into windows that weigh at most `limit`, or hold one row.

    Every batch comes with the weights of its tiles. Where a window ends depends on the rows alone,
    so that chunks do not show in the blocks. A window within one batch is a slice of it, without a
    copy.
    """
    waiting: list[pa.RecordBatch] = []
    room = limit
    for batch, weights in batches:
        begin = 0
        for (first, tile), weight in zip(tiles(batch), weights, strict=True):
            if weight <= room:
                room -= weight
                continue
            ends, start = np.cumsum(read_rows(tile).weights()), 0
            while start < len(tile):
                before = int(ends[start - 1]) if start else 0
                start = int(np.searchsorted(ends, before + room, side="right"))
                if start == len(tile):
                    room -= int(ends[-1]) - before
                    continue
                here = first + start
                if here == begin and not waiting:
                    here, start = here + 1, start + 1
                waiting.append(batch.slice(begin, here - begin))
                yield _whole(waiting)
                waiting, room, begin = [], limit, here
        if begin < len(batch):
            waiting.append(batch.slice(begin))
    if waiting:
        yield _whole(waiting)


def _whole(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    parts = [part for part in parts if len(part)]
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)
