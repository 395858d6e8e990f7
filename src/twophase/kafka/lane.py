"""The blocks of one partition on their way to its leader: order, window and retries, without I/O.

Theory of operation. The broker accepts, for each producer id and epoch, only the next sequence
number of a partition; it remembers its last five batches and answers a repeat of one of them with
the old offset instead of writing it again. So blocks may be sent before earlier ones are
acknowledged, and sent again after any failure, in any number, provided that

- no block is sent that is five or more behind the lowest unacknowledged one. The window counts from
  there, not what is in flight: otherwise five later blocks could make the broker forget one that
  is written but whose answer was lost, and its repeat would be refused for good;
- the first block of all travels alone. A partition that has never seen the producer id takes any
  sequence number, so a second block that overtook the first would be written, and the first then
  refused for good.

A lane is told what happened (`acknowledged`, `refused`) and answers what may be sent (`take`). It
owns no clock, no socket and no lock.
"""

import itertools
from collections import deque
from dataclasses import dataclass

from twophase.errors import CommitRejected, ProtocolViolation
from twophase.kafka.blocks import Block
from twophase.kafka.identity import TopicPartition

# What the broker remembers per producer id and partition.
WINDOW_MAX = 5

# Sequence numbers are int32 and wrap to 0, as the broker's do.
_SEQUENCES = 2**31


@dataclass(eq=False, slots=True)
class Parcel:
    """One block with its place in the lane, stamped and ready to be sent any number of times."""

    index: int
    block: Block
    header: bytes
    attempts: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes this parcel takes in a request."""
        return self.block.size_bytes


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What the broker has confirmed for one partition: `blocks` in a row, from first to next."""

    partition: TopicPartition
    blocks: int
    records: int
    size_bytes: int
    first_offset: int
    next_offset: int


class Lane:
    """One partition's blocks, in order, each acknowledged exactly once or the lane has failed."""

    def __init__(self, partition: TopicPartition, window: int) -> None:
        if not 1 <= window <= WINDOW_MAX:
            raise ProtocolViolation(f"a window of {window} is outside 1 to {WINDOW_MAX}")
        self.partition = partition
        self._window = window
        self._waiting: deque[Parcel] = deque()
        self._flying: dict[int, Parcel] = {}
        self._next_index = 0
        self._next_sequence = 0
        self._offsets: list[tuple[int, int, int]] = []
        self._records = 0
        self._size_bytes = 0

    @property
    def next_sequence(self) -> int:
        """The base sequence of the next block to be added."""
        return self._next_sequence

    @property
    def confirmed(self) -> tuple[int, int, int]:
        """Blocks, records and bytes that the broker has, whatever becomes of the others."""
        return len(self._offsets), self._records, self._size_bytes

    @property
    def outstanding(self) -> int:
        """How many blocks are not acknowledged yet."""
        return len(self._waiting) + len(self._flying)

    @property
    def waiting(self) -> int:
        """How many blocks are not on their way."""
        return len(self._waiting)

    @property
    def ready(self) -> bool:
        """Whether `take` would return a block."""
        if not self._waiting:
            return False
        window = self._window if self._offsets else 1
        return self._waiting[0].index < self._lowest_outstanding() + window

    def add(self, block: Block, header: bytes) -> None:
        """Append a block, whose header was stamped with `next_sequence`."""
        self._waiting.append(Parcel(self._next_index, block, header))
        self._next_index += 1
        self._next_sequence = (self._next_sequence + block.count) % _SEQUENCES

    def take(self) -> Parcel:
        """Return the next block to send; it is in flight from here on."""
        if not self.ready:
            raise ProtocolViolation(f"{self.partition} has no block that may be sent now")
        parcel = self._waiting.popleft()
        parcel.attempts += 1
        self._flying[parcel.index] = parcel
        return parcel

    def acknowledged(self, parcel: Parcel, offset: int) -> None:
        """Record that the broker has the block, at this offset."""
        if offset < 0:
            raise ProtocolViolation(f"{self.partition}: acknowledged without an offset: {offset}")
        self._land(parcel)
        self._offsets.append((parcel.index, offset, parcel.block.count))
        self._records += parcel.block.count
        self._size_bytes += parcel.size_bytes

    def refused(self, parcel: Parcel) -> None:
        """Put a block back whose fate is retry: it goes out again, before all later ones."""
        self._land(parcel)
        place = next(
            (at for at, other in enumerate(self._waiting) if other.index > parcel.index),
            len(self._waiting),
        )
        self._waiting.insert(place, parcel)

    def drop(self, parcel: Parcel) -> None:
        """Give up a block in flight; only for a producer without an id, whose lane has no gaps."""
        self._land(parcel)

    def abandon(self) -> int:
        """Give up every outstanding block and return their bytes; answers may still come."""
        dropped = [*self._waiting, *self._flying.values()]
        self._waiting.clear()
        self._flying.clear()
        return sum(parcel.size_bytes for parcel in dropped)

    def check_order(self, parcel: Parcel) -> None:
        """Raise if OUT_OF_ORDER_SEQUENCE_NUMBER is fatal, as it is with no lost block before it."""
        if self._lowest_outstanding() == parcel.index:
            raise CommitRejected(
                f"{self.partition}: the broker misses records that it had acknowledged before "
                f"block {parcel.index}; all must be written again"
            )

    def summary(self) -> Acknowledged:
        """Return what was acknowledged, after checking that the blocks lie in order in the log.

        A topic that was deleted and made anew under a running sender takes any sequence number and
        acknowledges it; offsets that go back are how that shows from here.
        """
        if self.outstanding:
            raise ProtocolViolation(f"{self.partition}: {self.outstanding} blocks are outstanding")
        placed = sorted(self._offsets)
        for (_, offset, count), (index, following, _) in itertools.pairwise(placed):
            if following < offset + count:
                raise CommitRejected(
                    f"{self.partition}: block {index} was acknowledged at offset {following}, "
                    f"before the end of an earlier block at {offset + count}; the topic was made "
                    f"anew, or somebody else writes under this identity"
                )
        return Acknowledged(
            partition=self.partition,
            blocks=len(placed),
            records=self._records,
            size_bytes=self._size_bytes,
            first_offset=placed[0][1] if placed else -1,
            next_offset=placed[-1][1] + placed[-1][2] if placed else -1,
        )

    def _lowest_outstanding(self) -> int:
        # At most a window of blocks is in flight, and the waiting ones are in order.
        lowest = min(self._flying, default=self._next_index)
        return min(lowest, self._waiting[0].index) if self._waiting else lowest

    def _land(self, parcel: Parcel) -> None:
        if self._flying.pop(parcel.index, None) is not parcel:
            raise ProtocolViolation(f"{self.partition}: block {parcel.index} was not in flight")
