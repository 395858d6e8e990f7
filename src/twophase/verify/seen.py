"""The rows that a reader saw, as numbers of the input: twelve bytes a row."""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from twophase.errors import ProtocolViolation
from twophase.verify.rows import CORRUPT, STRANGE, Input

Longs = NDArray[np.int64]
Numbers = NDArray[np.int32]

EXAMPLES_MAX: Final = 5
_SHOWN_BYTES: Final = 60


class ReadRow(Protocol):
    """A row as any client library may hand it over."""

    @property
    def partition(self) -> int:
        """Where it was read."""

    @property
    def offset(self) -> int:
        """Where in the partition."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The rows of one partition, by rising offset; a number may be CORRUPT or STRANGE."""

    offsets: Longs
    numbers: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """All rows that one reader saw; `examples` shows the first corrupt and strange ones."""

    partitions: Mapping[int, Places]
    examples: Mapping[int, tuple[str, ...]]

    @property
    def rows(self) -> int:
        """How many rows there are, of whatever kind."""
        return sum(len(places.numbers) for places in self.partitions.values())

    def count(self, number: int) -> int:
        """How often a row of the input, or CORRUPT, or STRANGE, was seen."""
        return sum(int((part.numbers == number).sum()) for part in self.partitions.values())

    def where(self, number: int) -> list[str]:
        """Return where a row was seen, as partition:offset."""
        return [
            f"{partition}:{offset}"
            for partition, places in sorted(self.partitions.items())
            for offset in places.offsets[places.numbers == number].tolist()
        ]


class Collector:
    """Takes rows one by one and keeps only what identifies them."""

    def __init__(self, of: Input) -> None:
        self._input = of
        self._offsets: dict[int, array[int]] = {}
        self._numbers: dict[int, array[int]] = {}
        self._examples: dict[int, list[str]] = {CORRUPT: [], STRANGE: []}
        self.rows = 0

    def add(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take a row; refuse one that its reader hands over twice or in the wrong order.

        A reader that does so would make a sink look guilty of what it did not do.
        """
        offsets = self._offsets.setdefault(partition, array("q"))
        if offsets and offset <= offsets[-1]:
            raise ProtocolViolation(
                f"the reader returned offset {offset} of partition {partition} after "
                f"{offsets[-1]}; each row must come once, by rising offset"
            )
        number = self._input.identify(key, value)
        if number < 0 and len(self._examples[number]) < EXAMPLES_MAX:
            self._examples[number].append(f"{partition}:{offset} {_shown(key, value)}")
        offsets.append(offset)
        self._numbers.setdefault(partition, array("i")).append(number)
        self.rows += 1

    def seen(self) -> Seen:
        """Return all rows so far."""
        return Seen(
            {
                partition: Places(
                    np.array(self._offsets[partition], np.int64),
                    np.array(self._numbers[partition], np.int32),
                )
                for partition in sorted(self._offsets)
            },
            {kind: tuple(found) for kind, found in self._examples.items()},
        )


def collect(of: Input, rows: Iterable[ReadRow]) -> Seen:
    """Return what a reader of any library saw; of each partition by rising offset."""
    collector = Collector(of)
    for row in rows:
        collector.add(row.partition, row.offset, row.key, row.value)
    return collector.seen()


def _shown(key: bytes | None, value: bytes | None) -> str:
    return f"key {_cut(key)}, value {_cut(value)}"


def _cut(found: Any) -> str:
    if found is None:
        return "null"
    return repr(found[:_SHOWN_BYTES]) + ("…" if len(found) > _SHOWN_BYTES else "")
