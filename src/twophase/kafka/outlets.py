"""Where the blocks of one task go when there is no transaction: surely, or as far as they get.

Both connect at the first block, so that a task without rows costs nothing.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from twophase.errors import CommitRejected, ConfigurationError, ProtocolViolation, TwoPhaseError
from twophase.kafka.blocks import Block
from twophase.kafka.identity import Producer, TopicPartition
from twophase.kafka.lossy import LossySender
from twophase.kafka.sender import Sender
from twophase.kafka.wire import Wire

Connect = Callable[[], Wire]
Counts = tuple[int, int, int]

_NOTHING: Counts = (0, 0, 0)


@dataclass(frozen=True, slots=True, order=True)
class Delivery:
    """One partition's rows of one task: those acknowledged, and those given up."""

    topic: str
    partition: int
    rows: int
    bytes: int
    failed_rows: int


class Outlet(Protocol):
    """Takes the blocks of one task, then says what became of them."""

    error: str | None

    def send(self, block: Block) -> None:
        """Take a block."""

    def note(self, failure: TwoPhaseError) -> None:
        """Take note of a failure before the blocks, or raise it."""

    def finish(self) -> list[Delivery]:
        """Wait for the last answer and return what each partition got."""

    def close(self) -> None:
        """Send nothing more: the task has ended, well or not."""


class SureOutlet:
    """Every block is acknowledged by all replicas when `finish` returns; otherwise it raises."""

    def __init__(self, connect: Connect, producer: Callable[[], Producer]) -> None:
        self._connect, self._producer = connect, producer
        self._sender: Sender | None = None
        self._given = Given()
        self.error: str | None = None

    def send(self, block: Block) -> None:
        """Take a block; raises as soon as one cannot be written."""
        if self._sender is None:
            self._sender = Sender(self._connect(), self._producer())
        self._given.add(block)
        self._sender.send(block)

    def note(self, failure: TwoPhaseError) -> None:
        """Raise it: a row is missing."""
        raise failure

    def finish(self) -> list[Delivery]:
        """Return what each partition got, after comparing with what it was given."""
        done = self._sender.flush() if self._sender else ()
        confirmed = {part.partition: (part.blocks, part.records, part.size_bytes) for part in done}
        if confirmed != self._given.counts:
            raise CommitRejected("the broker has not confirmed what was sent")
        return self._given.deliveries(confirmed)

    def close(self) -> None:
        """Send nothing more; the worker lives on, and with it the connection."""
        if self._sender is not None:
            self._sender.close()


class LossyOutlet:
    """What cannot be written is counted and the first reason kept; nothing waits for ever."""

    def __init__(self, connect: Connect, acks: int) -> None:
        self._connect, self._acks = connect, acks
        self._sender: LossySender | None = None
        self._stopped = False
        self._given = Given()
        self.error: str | None = None

    def send(self, block: Block) -> None:
        """Take a block, or only count it once the sender has stopped."""
        self._given.add(block)
        if self._stopped:
            return
        try:
            if self._sender is None:
                self._sender = LossySender(self._connect(), self._acks)
            self._sender.send(block)
        except TwoPhaseError as failure:
            self.note(failure)

    def note(self, failure: TwoPhaseError) -> None:
        """Stop sending and keep the reason, unless it is a mistake that a person must mend."""
        if isinstance(failure, ConfigurationError | ProtocolViolation):
            raise failure
        self._stopped = True
        self.error = self.error or str(failure)

    def finish(self) -> list[Delivery]:
        """Return what each partition got and did not get; `error` then has the first reason."""
        confirmed: dict[TopicPartition, Counts] = {}
        if self._sender is not None:
            try:
                self._sender.drain()
            except TwoPhaseError as failure:
                self.note(failure)
            confirmed = self._sender.confirmed()
            first = self._sender.first_error
            self.error = str(first) if first else self.error
        return self._given.deliveries(confirmed)

    def close(self) -> None:
        """Send nothing more; the worker lives on, and with it the connection."""
        if self._sender is not None:
            self._sender.close()


class Given:
    """How many blocks, rows and bytes each partition was given."""

    def __init__(self) -> None:
        self.counts: dict[TopicPartition, Counts] = defaultdict(lambda: _NOTHING)

    def add(self, block: Block) -> None:
        """Count one block."""
        place = TopicPartition(block.topic, block.partition)
        blocks, rows, size_bytes = self.counts[place]
        self.counts[place] = (blocks + 1, rows + block.count, size_bytes + block.size_bytes)

    def deliveries(self, confirmed: dict[TopicPartition, Counts]) -> list[Delivery]:
        """Return what became of each partition's rows."""
        found = []
        for place, (_, given, _) in sorted(self.counts.items()):
            _, rows, size_bytes = confirmed.get(place, _NOTHING)
            found.append(Delivery(*place, rows, size_bytes, given - rows))
        return found
