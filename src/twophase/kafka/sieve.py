"""Rows that can be written, and dead letters of those that cannot."""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from twophase.kafka.columns import Bools, Longs, Rows, read_rows
from twophase.kafka.dead_letters import DeadLetters
from twophase.kafka.faults import Fault, Reason
from twophase.kafka.letters import letters_of
from twophase.kafka.plan import EncodePlan
from twophase.kafka.row_checks import row_faults
from twophase.kafka.rule_checks import rule_faults, tell_large
from twophase.kafka.topics import topic_faults, topics_of
from twophase.kafka.windows import tiles

Why: TypeAlias = tuple[Reason, str]


class Sieve:
    """Keeps rows in their order; each that it takes out is in exactly one letter, in order too."""

    def __init__(self, plan: EncodePlan, dead: DeadLetters, now_ms: int) -> None:
        self._plan, self._dead, self._now_ms = plan, dead, now_ms
        self._letters: list[pa.RecordBatch] = []

    def keep(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
        """Return the rows that can be written, with the weights of their tiles."""
        kept, weights, whole = [], [], True
        for _, tile in tiles(batch):
            good, weight = self._sifted(tile)
            whole = whole and good is tile
            kept.append(good)
            weights.append(weight)
        if whole:
            return batch, weights
        rows = pa.concat_batches(kept)
        return rows, [weight_of(tile) for _, tile in tiles(rows)]

    def reject_large(self, row: pa.RecordBatch, topic: str, size_bytes: int, limit: int) -> None:
        """Take one row that turned out too large for its topic."""
        sentence = tell_large(row, topic, size_bytes, limit)
        self._write(row, [(Reason.SIZE, sentence)])

    def letters(self) -> Iterator[pa.RecordBatch]:
        """Yield the letters that have gathered."""
        letters, self._letters = self._letters, []
        yield from letters

    def _sifted(self, tile: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
        why: dict[int, Why] = {}
        # Topics first: a row without one has no number of partitions to be checked against.
        found = list(topic_faults(tile, self._plan, self._dead))
        wrong = self._explain(found, np.arange(len(tile)), why)
        good = _rows(tile, ~wrong) if why else tile
        rows = read_rows(good)
        found = list(self._other_faults(good, rows)) if len(good) else []
        if not found and not why:
            return tile, int(rows.weights().sum())
        wrong = self._explain(found, np.flatnonzero(~wrong), why)
        rejected = np.zeros(len(tile), np.bool_)
        rejected[list(why)] = True
        self._write(_rows(tile, rejected), [why[row] for row in sorted(why)])
        good = _rows(good, ~wrong)
        return good, weight_of(good)

    def _other_faults(self, tile: pa.RecordBatch, rows: Rows) -> Iterator[Fault]:
        yield from row_faults(rows, tile, 0, self._plan)
        if self._plan.strict:
            yield from rule_faults(rows, topics_of(tile, self._plan), self._plan, self._now_ms)

    @staticmethod
    def _explain(faults: list[Fault], here: Longs, why: dict[int, Why]) -> Bools:
        """Note the first fault of every row that has one, under its number in the tile."""
        wrong = np.zeros(len(here), np.bool_)
        for fault in faults:
            for row in np.flatnonzero(fault.wrong & ~wrong).tolist():
                why[int(here[row])] = (fault.reason, fault.tell(row)[0])
            wrong |= fault.wrong
        return wrong

    def _write(self, rows: pa.RecordBatch, why: list[Why]) -> None:
        self._letters.append(letters_of(rows, why, self._plan.topic, self._dead))


def weight_of(rows: pa.RecordBatch) -> int:
    """Return what the rows weigh, for windows."""
    return int(read_rows(rows).weights().sum()) if len(rows) else 0


def _rows(tile: pa.RecordBatch, wanted: Bools) -> pa.RecordBatch:
    """Return the wanted rows, put together of slices: Arrow cannot filter every type."""
    edges = np.flatnonzero(np.diff(wanted, prepend=False, append=False)).tolist()
    runs = [
        tile.slice(start, stop - start) for start, stop in zip(edges[::2], edges[1::2], strict=True)
    ]
    if len(runs) == 1:
        return runs[0]
    return pa.concat_batches(runs) if runs else tile.slice(0, 0)
