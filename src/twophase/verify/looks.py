"""What the broker showed its readers, look by look, and how long it held them up; no I/O.

A *look* is one set of answers of the broker: for each partition its end (the high watermark) and
its last stable offset, which is where a read_committed reader must stop. What a reader could see at
that moment is exactly the rows before the last stable offsets, however far it has read itself.

A look is *settled* if no transaction of the sink was being ended before it nor after it: while one
is, the broker reveals its partitions one after the other, which is Kafka's way and nobody's fault.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twophase.verify.seen import Longs


@dataclass(frozen=True, slots=True)
class Look:
    """One look: monotonic time, and per partition the end and the last stable offset."""

    at_s: float
    ends: Mapping[int, int]
    stable: Mapping[int, int]
    settled: bool = True


@dataclass(frozen=True, slots=True)
class Stall:
    """A partition's rows from `offset` on were there from `began_s`, and hidden until `ended_s`."""

    partition: int
    offset: int
    began_s: float
    ended_s: float

    @property
    def held_s(self) -> float:
        """How long readers were held up."""
        return self.ended_s - self.began_s


class Stalls:
    """How long each offset was held up.

    From the first look that shows the partition's end past the offset, until the first look that
    shows its last stable offset past it. The offsets of aborted rows count: a reader waits for them
    all the same. What is still hidden counts up to the last look. So a stall is known to within the
    time between two looks.
    """

    def __init__(self) -> None:
        self._hidden: dict[int, deque[tuple[int, int, float]]] = {}
        self._ends: dict[int, int] = {}
        self._last_s = 0.0
        self._longest_s = 0.0

    def look(self, look: Look) -> Iterator[Stall]:
        """Take a look; yield, per partition, the longest of the stalls that it ended."""
        self._last_s = look.at_s
        for partition, end in look.ends.items():
            hidden = self._hidden.setdefault(partition, deque())
            before, stable = self._ends.get(partition, 0), look.stable[partition]
            if end > before:
                hidden.append((before, end, look.at_s))
                self._ends[partition] = end
            if hidden and hidden[0][0] < stable:
                offset, _, began_s = hidden[0]
                _drop(hidden, stable)
                stall = Stall(partition, offset, began_s, look.at_s)
                self._longest_s = max(self._longest_s, stall.held_s)
                if stall.held_s > 0:
                    yield stall

    @property
    def longest_s(self) -> float:
        """The longest time that any offset was held up."""
        open_s = (hidden[0][2] for hidden in self._hidden.values() if hidden)
        return max([self._longest_s, *(self._last_s - began_s for began_s in open_s)])


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """The settled looks as columns: their times, and each partition's last stable offsets."""

    times_s: NDArray[np.float64]
    stable: Mapping[int, Longs]

    @classmethod
    def of(cls, looks: Sequence[Look]) -> "Settled":
        """Keep the settled looks only."""
        kept = [look for look in looks if look.settled]
        partitions = sorted({partition for look in kept for partition in look.stable})
        columns = {
            # A reader that has gone past an offset does not come back, whatever a new leader says.
            partition: np.maximum.accumulate(
                np.array([look.stable.get(partition, 0) for look in kept], np.int64)
            )
            for partition in partitions
        }
        return cls(np.array([look.at_s for look in kept]), columns)

    def first_shown(self, partition: int, offsets: Longs) -> Longs:
        """Return, per offset, the first look that shows it; the number of looks if none does."""
        steps = self.stable.get(partition)
        if steps is None:
            return np.full(len(offsets), len(self.times_s))
        return np.searchsorted(steps, offsets, side="right")


def _drop(hidden: deque[tuple[int, int, float]], stable: int) -> None:
    """Drop what is visible now; of a run that is visible in part keep the rest."""
    while hidden and hidden[0][0] < stable:
        _, stop, began_s = hidden.popleft()
        if stop > stable:
            hidden.appendleft((stable, stop, began_s))
