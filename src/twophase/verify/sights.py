"""Which rows of the input a reader saw, which again, and which out of order; in bounded memory.

Per row of the input one byte is kept, per key twenty; a million rows are worked on at a time.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twophase.verify.rows import Input
from twophase.verify.seen import EXAMPLES_MAX, Longs, Seen
from twophase.verify.verdict import Finding, Kind

_CHUNK_ROWS: Final = 1_000_000

Flags = NDArray[np.bool_]


class Sights:
    """Goes through the rows of one reader, once, in the order in which it read them.

    A key's home is the partition that has most of its rows. Rows at home come first, so that of two
    sights of a row the one at home is the first. A row that is seen only elsewhere has no order.
    """

    def __init__(self, of: Input, rows: Seen) -> None:
        self._input, self._rows = of, rows
        self.seen: Flags = np.zeros(of.rows, np.bool_)
        self._latest = np.full(of.keys, -1, np.int64)
        self._again, self._late = _Tally(), _Tally()
        home = self._homes()
        for partition, numbers in self._chunks():
            self._at_home(numbers[home[numbers % of.keys] == partition])
        for partition, numbers in self._chunks():
            away = numbers[home[numbers % of.keys] != partition]
            self._late.add(self._fresh(away))

    def duplicates(self) -> Finding:
        """Return every sight of a row but its first."""
        texts = (
            f"{self._input.named(number)} at {', '.join(self._where(number))}"
            for number in self._again.first
        )
        return Finding(Kind.DUPLICATE, self._again.count, tuple(texts))

    def reordered(self) -> Finding:
        """Return the rows first seen after a later one of their key, or not at its home."""
        texts = (
            f"{self._input.named(number)} at {self._where(number)[0]}"
            for number in self._late.first
        )
        return Finding(Kind.REORDERED, self._late.count, tuple(texts))

    def _where(self, number: int) -> list[str]:
        return self._rows.where(number)[: EXAMPLES_MAX + 1]

    def _chunks(self) -> Iterator[tuple[int, Longs]]:
        for partition, places in self._rows.partitions.items():
            for start in range(0, len(places.numbers), _CHUNK_ROWS):
                numbers = places.numbers[start : start + _CHUNK_ROWS]
                yield partition, numbers[numbers >= 0].astype(np.int64)

    def _homes(self) -> NDArray[np.int32]:
        home, most = np.full(self._input.keys, -1, np.int32), np.zeros(self._input.keys, np.int64)
        for partition, places in self._rows.partitions.items():
            numbers = places.numbers[places.numbers >= 0]
            counts = np.bincount(numbers % self._input.keys, minlength=self._input.keys)
            home[counts > most] = partition
            most = np.maximum(most, counts)
        return home

    def _fresh(self, numbers: Longs) -> Longs:
        """Count what was seen before, and return the rest in its order."""
        fresh = np.zeros(len(numbers), np.bool_)
        fresh[np.unique(numbers, return_index=True)[1]] = True
        fresh &= ~self.seen[numbers]
        self.seen[numbers] = True
        self._again.add(numbers[~fresh])
        return numbers[fresh]

    def _at_home(self, numbers: Longs) -> None:
        first = self._fresh(numbers)
        keys, sequences = first % self._input.keys, first // self._input.keys
        # By key, each key's rows in the order of reading; then the highest sequence so far, which
        # the key as the higher digit keeps apart from that of the key before.
        order = np.argsort(keys, kind="stable")
        keys, sequences = keys[order], sequences[order]
        span = self._input.rows + 1
        highest = np.maximum.accumulate(keys * span + sequences)[:-1] - keys[1:] * span
        before = self._latest[keys]
        before[1:] = np.maximum(before[1:], highest)
        late = np.zeros(len(first), np.bool_)
        late[order] = sequences < before
        np.maximum.at(self._latest, keys, sequences)
        self._late.add(first[late])


class _Tally:
    """How many rows, and the first few."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[int] = []

    def add(self, numbers: Longs) -> None:
        """Count these rows."""
        self.count += len(numbers)
        for number in numbers[:EXAMPLES_MAX].tolist():
            if len(self.first) < EXAMPLES_MAX and number not in self.first:
                self.first.append(number)
