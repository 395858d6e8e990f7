"""The sender of the guarantee `none`: what cannot be written is dropped, and the rest goes on.

A block that the broker refuses is dropped alone. A partition that acknowledged nothing for
`kafka.delivery.timeout.ms` is abandoned: its blocks are dropped, those that follow too, without
another wait. A sender waits so three times at most; then it stops, as any sender does.

Its producer has no id, so that a dropped block leaves no gap in a sequence.
"""

from typing import Any, Final

from twophase.errors import TwoPhaseError
from twophase.kafka.blocks import Block
from twophase.kafka.identity import NOBODY, TopicPartition
from twophase.kafka.lane import Lane, Parcel
from twophase.kafka.sender import Sender
from twophase.kafka.wire import Wire

_WAITS_MAX: Final = 3


class LossySender(Sender):
    """Sends what it can; `confirmed` says what arrived, and `first_error` why the rest did not."""

    def __init__(self, wire: Wire, acks: int) -> None:
        super().__init__(wire, NOBODY, acks=acks)
        self._abandoned: set[TopicPartition] = set()
        self._waits_left = _WAITS_MAX
        self.first_error: TwoPhaseError | None = None

    def _add(self, block: Block) -> None:
        # Here and not before the wait for room, in which a partition may be abandoned.
        if TopicPartition(block.topic, block.partition) not in self._abandoned:
            super()._add(block)

    def drain(self) -> None:
        """Wait until every block is acknowledged or dropped; raise where the sender has stopped."""
        with self._changed:
            self._wait(lambda: not self._pending_bytes)

    def confirmed(self) -> dict[TopicPartition, tuple[int, int, int]]:
        """Return blocks, records and bytes that each partition's leader has acknowledged."""
        with self._changed:
            return {partition: lane.confirmed for partition, lane in self._lanes.items()}

    def _fail(self, failure: TwoPhaseError) -> None:
        self.first_error = self.first_error or failure
        super()._fail(failure)

    def _block_refused(self, lane: Lane, parcel: Parcel, failure: TwoPhaseError) -> None:
        self.first_error = self.first_error or failure
        lane.drop(parcel)
        self._landed(parcel, lane.partition)

    def _lanes_late(self, late: list[Lane], failure: TwoPhaseError) -> None:
        self._waits_left -= 1
        if not self._waits_left:
            self._fail(failure)
            return
        self.first_error = self.first_error or failure
        for lane in late:
            self._abandoned.add(lane.partition)
            self._pending_bytes -= lane.abandon()

    def _take_row(self, partition: TopicPartition, parcel: Parcel, row: Any) -> None:
        if partition not in self._abandoned:
            super()._take_row(partition, parcel, row)

    def _again(self, partition: TopicPartition, parcel: Parcel, *, elsewhere: bool) -> None:
        if partition not in self._abandoned:
            super()._again(partition, parcel, elsewhere=elsewhere)
