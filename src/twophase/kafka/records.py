"""Arrow columns become Kafka record batches, without a line of Python per row.

Rows are worked on in windows of bounded size. Each row of a window learns its partition and its
block (`layout`); then block after block is written: the varints as columns of words, keys and
values by reference, all put together by one Arrow kernel (`pieces`).
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from twophase.kafka.blocks import Block
from twophase.kafka.columns import check_schema, read_rows
from twophase.kafka.layout import Cut, Spread, lay_out
from twophase.kafka.plan import EncodePlan
from twophase.kafka.row_checks import check_rows
from twophase.kafka.topics import topics_of
from twophase.kafka.windows import TILE_ROWS, tiles, windows
from twophase.kafka.writer import Writer

# Blocks written together share a buffer, so this is also what a block that is kept may keep alive.
_GROUP_BYTES: Final = 4 * 2**20


def encode(
    batch: pa.RecordBatch | pa.Table, plan: EncodePlan, *, now_ms: int, spread_from: int = 0
) -> Iterator[Block]:
    """Check every row of the batch, then return its blocks, each partition's in row order.

    The same rows, plan, `now_ms` and `spread_from` give the same blocks, byte for byte, however
    the rows are chunked. Rows without a key start with the partition `spread_from`, modulo the
    topic's number of partitions.
    """
    check_schema(batch.schema, topic_needed=plan.topic is None)
    batches = batch.to_batches() if isinstance(batch, pa.Table) else [batch]
    return _blocks(list(_checked(batches, plan)), plan, now_ms, Spread(spread_from))


def encode_stream(
    batches: Iterable[pa.RecordBatch], plan: EncodePlan, *, now_ms: int, spread_from: int = 0
) -> Iterator[Block]:
    """Yield the blocks that `encode` makes of all batches together, as soon as a window is full.

    A batch is checked on arrival, so a row may be refused after blocks of earlier batches.
    """
    return _blocks(_checked(batches, plan), plan, now_ms, Spread(spread_from))


def _checked(
    batches: Iterable[pa.RecordBatch], plan: EncodePlan
) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
    """Check every row of a batch, and weigh its tiles on the way."""
    before = 0
    for batch in batches:
        check_schema(batch.schema, topic_needed=plan.topic is None)
        weights = []
        for first, tile in tiles(batch):
            rows = read_rows(tile)
            check_rows(rows, tile, before + first, plan)
            weights.append(int(rows.weights().sum()))
        before += len(batch)
        yield batch, weights


def _blocks(
    batches: Iterable[tuple[pa.RecordBatch, list[int]]],
    plan: EncodePlan,
    now_ms: int,
    spread: Spread,
) -> Iterator[Block]:
    for window in windows(batches, plan.window_bytes):
        yield from _blocks_of(window, plan, now_ms, spread)
        # Before the next window is gathered, not after: one at a time is what bounds the memory.
        del window


def _blocks_of(
    window: pa.RecordBatch, plan: EncodePlan, now_ms: int, spread: Spread
) -> Iterator[Block]:
    rows = read_rows(window)
    times = rows.timestamps_or(now_ms)
    layout = lay_out(rows, topics_of(window, plan), times, plan, spread)
    writer = Writer(rows, times, now_ms)
    for cuts in _groups(layout.cuts):
        start, stop = cuts[0].start, cuts[-1].stop
        choice = slice(start, stop) if layout.order is None else layout.order[start:stop]
        yield from writer.write(choice, cuts, plan)


def _groups(cuts: list[Cut]) -> Iterator[list[Cut]]:
    """Group small blocks that are written together; a great one is written alone."""
    group: list[Cut] = []
    room = _GROUP_BYTES
    for cut in cuts:
        if group and (cut.stop - group[0].start > TILE_ROWS or cut.most_bytes > room):
            yield group
            group, room = [], _GROUP_BYTES
        group.append(cut)
        room -= cut.most_bytes
    if group:
        yield group
