"""The rows of one task attempt on their way into one transaction: encoded and sent in one pass."""

import time
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from twophase.errors import CommitRejected, StoreUnavailable
from twophase.kafka.coordinator import Unsettled
from twophase.kafka.counts import PartitionCounts, ask_partition_counts
from twophase.kafka.identity import Identity, TopicPartition, TransactionVersion
from twophase.kafka.outlets import Given
from twophase.kafka.plan import plan_for
from twophase.kafka.records import encode_stream
from twophase.kafka.sender import Sender
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire
from twophase.log.decision import Committable

if TYPE_CHECKING:
    from collections.abc import Mapping

# Rows that are encoded together, so that blocks are as large as they may be.
_TOGETHER_BYTES: Final = 16_000_000


class TaskWriter:
    """One open transaction in the process that began it."""

    def __init__(
        self, wire: Wire, identity: Identity, topic: str | None, *, spread_from: int
    ) -> None:
        self.identity = identity
        self._wire, self._transactions = wire, Transactions(wire)
        counts: Mapping[str, int] = PartitionCounts(lambda: wire)
        if topic is not None:
            counts = dict(ask_partition_counts(wire, [topic]))
        self._plan = plan_for(wire.options, topic, counts)
        self._spread_from = spread_from
        self._sender = Sender(wire, identity)
        self._given = Given()
        self._added: set[TopicPartition] = set()
        self._waiting: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows; raises as soon as one cannot be written."""
        self._waiting.append(rows)
        if sum(each.nbytes for each in self._waiting) >= _TOGETHER_BYTES:
            self._send()

    def finish(self) -> Committable:
        """Wait until all is acknowledged; return what it takes to commit it."""
        self._send()
        done = self._sender.flush()
        confirmed = {part.partition: (part.blocks, part.records, part.size_bytes) for part in done}
        if confirmed != self._given.counts:
            raise CommitRejected(
                "the broker has not confirmed what was sent", **self.identity.ids()
            )
        self._sender.close()
        return {
            **committable_of(self.identity),
            # For people, should it be lost: the rows' places in the topic.
            "partitions": [
                [str(part.partition), part.first_offset, part.next_offset] for part in done
            ],
        }

    def drop(self) -> None:
        """Send nothing more."""
        self._sender.close()

    def _send(self) -> None:
        rows, self._waiting = self._waiting, []
        now_ms = int(time.time() * 1000)
        blocks = encode_stream(rows, self._plan, now_ms=now_ms, spread_from=self._spread_from)
        for block in blocks:
            self._add(TopicPartition(block.topic, block.partition))
            self._given.add(block)
            self._sender.send(block)

    def _add(self, partition: TopicPartition) -> None:
        """Make a partition part of the transaction, asking only once: see `fate`."""
        if partition in self._added:
            return
        try:
            self._transactions.add_partitions(self.identity, [partition], alone=True)
        except Unsettled as unsettled:
            raise StoreUnavailable(
                f"no answer whether {partition} is part of the transaction: {unsettled}",
                **self.identity.ids(),
            ) from unsettled
        self._added.add(partition)


def committable_of(identity: Identity) -> Committable:
    """Return an identity as JSON values."""
    return {
        "transactional_id": identity.transactional_id,
        "producer_id": identity.producer_id,
        "epoch": identity.epoch,
        "version": int(identity.version),
    }


def identity_in(committable: Committable) -> Identity:
    """Return the identity that a committable holds."""
    return Identity(
        committable["transactional_id"],
        committable["producer_id"],
        committable["epoch"],
        TransactionVersion(committable["version"]),
    )
