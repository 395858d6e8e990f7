"""Arrow columns become Kafka record batches, without a line of Python per row.

Rows are worked on in windows of bounded size. Each row of a window learns its partition and its
block (`layout`); then block after block is written: the varints as columns of words, keys and
values by reference, all put together by one Arrow kernel (`pieces`).

Rows that cannot be written are raised, or go as dead letters (`sieve`) the same way behind the
others.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import pyarrow as pa

from twophase.errors import ProtocolViolation
from twophase.kafka.blocks import Block
from twophase.kafka.columns import check_schema, read_rows
from twophase.kafka.layout import Cut, Spread, lay_out
from twophase.kafka.letters import cut_letter
from twophase.kafka.plan import EncodePlan
from twophase.kafka.row_checks import check_rows
from twophase.kafka.sieve import Sieve, weight_of
from twophase.kafka.topics import topics_of
from twophase.kafka.windows import TILE_ROWS, Windows, tiles
from twophase.kafka.writer import Writer

# Blocks written together share a buffer, so this is also what a block that is kept may keep alive.
_GROUP_BYTES: Final = 4 * 2**20

# What becomes of a row that is alone in its block and larger than its topic takes: the row, its
# block, the limit.
TooLarge: TypeAlias = Callable[[pa.RecordBatch, Block, int], Iterable[Block]]


def encode(
    batch: pa.RecordBatch | pa.Table, plan: EncodePlan, *, now_ms: int, spread_from: int = 0
) -> Iterator[Block]:
    """Check every row of the batch, then return its blocks, each partition's in row order.

    The same rows, plan, `now_ms` and `spread_from` give the same blocks, byte for byte, however
    the rows are chunked. Rows without a key start with the partition `spread_from`, modulo the
    topic's number of partitions. Dead letters' blocks lie anywhere among the others, and letters of
    rows that only their compressed size shows to be too large anywhere among the letters.
    """
    check_schema(batch.schema, topic_needed=plan.topic is None)
    batches = batch.to_batches() if isinstance(batch, pa.Table) else [batch]
    encoding = _Encoding(plan, now_ms, spread_from)
    return encoding.blocks(list(encoding.checked(batches)))


def encode_stream(
    batches: Iterable[pa.RecordBatch], plan: EncodePlan, *, now_ms: int, spread_from: int = 0
) -> Iterator[Block]:
    """Yield the blocks that `encode` makes of all batches together, as soon as a window is full.

    A batch is checked on arrival, so a row may be refused after blocks of earlier batches.
    """
    encoding = _Encoding(plan, now_ms, spread_from)
    return encoding.blocks(encoding.checked(batches))


class _Encoding:
    """One pass over rows, and behind them over the letters of those that cannot be written."""

    def __init__(self, plan: EncodePlan, now_ms: int, spread_from: int) -> None:
        self._plan, self._now_ms, self._spread = plan, now_ms, Spread(spread_from)
        self._sieve = None if plan.dead is None else Sieve(plan, plan.dead, now_ms)
        self._letter_plan: EncodePlan | None = None
        self._letter_windows = Windows(plan.window)

    def checked(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """Check every row of a batch, and weigh its tiles on the way."""
        before = 0
        for batch in batches:
            check_schema(batch.schema, topic_needed=self._plan.topic is None)
            if self._sieve is not None:
                yield self._sieve.keep(batch)
                continue
            weights = []
            for first, tile in tiles(batch):
                rows = read_rows(tile)
                check_rows(rows, tile, before + first, self._plan)
                weights.append(int(rows.weights().sum()))
            before += len(batch)
            yield batch, weights

    def blocks(self, batches: Iterable[tuple[pa.RecordBatch, list[int]]]) -> Iterator[Block]:
        """Yield the blocks of the rows that were checked, window after window."""
        regrouped = Windows(self._plan.window)
        for batch, weights in batches:
            for window in regrouped.add(batch, weights):
                yield from self._blocks_of(window, self._plan, self._reject)
                # Before the next window is gathered, not after: one at a time bounds the memory.
                del window
            yield from self._letter_blocks()
        for window in regrouped.rest():
            yield from self._blocks_of(window, self._plan, self._reject)
        yield from self._letter_blocks()
        for window in self._letter_windows.rest():
            yield from self._letters_in(window)

    def _letter_blocks(self) -> Iterator[Block]:
        if self._sieve is None:
            return
        for letters in self._sieve.letters():
            weights = [weight_of(tile) for _, tile in tiles(letters)]
            for window in self._letter_windows.add(letters, weights):
                yield from self._letters_in(window)
                del window

    def _letters_in(self, window: pa.RecordBatch) -> Iterator[Block]:
        if self._letter_plan is None and self._plan.dead is not None:
            self._letter_plan = self._plan.for_letters(self._plan.dead)
        if self._letter_plan is not None:
            yield from self._blocks_of(window, self._letter_plan, self._cut)

    def _reject(self, row: pa.RecordBatch, block: Block, limit: int) -> Iterable[Block]:
        if self._sieve is None:
            raise ProtocolViolation("a limit of a topic is known, and no dead-letter topic")
        self._sieve.reject_large(row, block.topic, block.size_bytes, limit)
        return ()

    def _cut(self, letter: pa.RecordBatch, block: Block, limit: int) -> Iterable[Block]:
        del block
        if self._letter_plan is None:
            raise ProtocolViolation("a letter without its plan")
        return self._blocks_of(cut_letter(letter, limit), self._letter_plan, _never)

    def _blocks_of(
        self, window: pa.RecordBatch, plan: EncodePlan, too_large: TooLarge
    ) -> Iterator[Block]:
        rows = read_rows(window)
        times = rows.timestamps_or(self._now_ms)
        layout = lay_out(rows, topics_of(window, plan), times, plan, self._spread)
        writer = Writer(rows, times, self._now_ms)
        for cuts in _groups(layout.cuts):
            start, stop = cuts[0].start, cuts[-1].stop
            choice = slice(start, stop) if layout.order is None else layout.order[start:stop]
            for cut, block in zip(cuts, writer.write(choice, cuts, plan), strict=True):
                limit = plan.rule(cut.topic).block_bytes
                if limit is None or block.size_bytes <= limit:
                    yield block
                    continue
                if block.count > 1:
                    raise ProtocolViolation(f"{block.count} rows in {block.size_bytes} bytes")
                row = cut.start if layout.order is None else int(layout.order[cut.start])
                yield from too_large(window.slice(row, 1), block, limit)


def _never(letter: pa.RecordBatch, block: Block, limit: int) -> Iterable[Block]:
    del letter
    raise ProtocolViolation(f"a letter that was cut takes {block.size_bytes} of {limit} bytes")


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
