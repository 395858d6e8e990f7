"""Whose turn it is: the lanes that have something to send, the longest waiting first.

Requests are filled from the front. A lane that was served goes to the end, and so does one that has
something to send again; so no partition waits behind others that are busier. Without this, lanes at
the end of a fixed order wait as long as those before them are ready, which on a healthy cluster
with many partitions can take longer than the time after which a sender gives up.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twophase.kafka.lane import Lane

if TYPE_CHECKING:
    from twophase.kafka.identity import TopicPartition


class Rota:
    """An order of turns among lanes; each lane is in it once, while it has blocks waiting."""

    def __init__(self) -> None:
        self._turns: dict[TopicPartition, Lane] = {}

    def __iter__(self) -> Iterator[Lane]:
        return iter(tuple(self._turns.values()))

    def join(self, lane: Lane) -> None:
        """Take a turn at the end, unless the lane has one already."""
        self._turns.setdefault(lane.partition, lane)

    def served(self, lane: Lane) -> None:
        """End the lane's turn; it gets another at the end if it has more."""
        self._turns.pop(lane.partition, None)
        if lane.waiting:
            self._turns[lane.partition] = lane
