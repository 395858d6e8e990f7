"""The rows of one task attempt on their way into one transaction: encoded and sent in one pass."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from twophase.errors import BlockRefused, CommitRejected, StoreUnavailable
from twophase.kafka.blocks import together
from twophase.kafka.coordinator import Unsettled
from twophase.kafka.counts import PartitionCounts, ask_partition_counts
from twophase.kafka.dead_letters import DeadLetters, stricter
from twophase.kafka.identity import Identity, TopicPartition, TransactionVersion
from twophase.kafka.outlets import Given
from twophase.kafka.plan import plan_for
from twophase.kafka.records import encode_stream
from twophase.kafka.sender import TOGETHER_BYTES, Sender
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire
from twophase.log.decision import REJECTED, Committable

# Rows that are encoded together, so that blocks are as large as they may be.
_TOGETHER_BYTES: Final = 16_000_000


class TaskWriter:
    """One open transaction in the process that began it."""

    def __init__(
        self,
        wire: Wire,
        identity: Identity,
        topic: str | None,
        *,
        spread_from: int,
        dead: DeadLetters | None = None,
    ) -> None:
        self.identity = identity
        self._wire, self._transactions = wire, Transactions(wire)
        letters = None if dead is None else dead.topic
        counts = ask_partition_counts(wire, [name for name in (topic, letters) if name is not None])
        if topic is None:
            optional = dead is not None
            counts = PartitionCounts(lambda: wire, optional=optional, known=counts)
        self._plan = plan_for(wire.options, topic, counts, dead=dead, connect=lambda: wire)
        self._spread_from = spread_from
        self._sender = Sender(wire, identity)
        self._given = Given()
        self._added: set[TopicPartition] = set()
        self._waiting: list[pa.RecordBatch] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows; raises as soon as one cannot be written."""
        self._waiting.append(rows)
        if sum(each.nbytes for each in self._waiting) >= _TOGETHER_BYTES:
            with self._told():
                self._send()

    def finish(self) -> Committable:
        """Wait until all is acknowledged; return what it takes to commit it."""
        with self._told():
            self._send()
            done = self._sender.flush()
        confirmed = {part.partition: (part.blocks, part.records, part.size_bytes) for part in done}
        if confirmed != self._given.counts:
            raise CommitRejected(
                "the broker has not confirmed what was sent", **self.identity.ids()
            )
        self._sender.close()
        letters = "" if self._plan.dead is None else self._plan.dead.topic
        return {
            **committable_of(self.identity),
            REJECTED: sum(part.records for part in done if part.partition.topic == letters),
            # For people, should it be lost: the rows' places in the topic.
            "partitions": [
                [str(part.partition), part.first_offset, part.next_offset] for part in done
            ],
        }

    def drop(self) -> None:
        """Send nothing more."""
        self._sender.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say of a refusal where rows were held against the settings of their topics before."""
        try:
            yield
        except BlockRefused as refused:
            if self._plan.strict:
                stricter(self._plan.dead, refused)
            raise

    def _send(self) -> None:
        rows, self._waiting = self._waiting, []
        now_ms = int(time.time() * 1000)
        blocks = encode_stream(rows, self._plan, now_ms=now_ms, spread_from=self._spread_from)
        for group in together(blocks, TOGETHER_BYTES):
            self._add({TopicPartition(block.topic, block.partition) for block in group})
            for block in group:
                self._given.add(block)
            self._sender.send(*group)

    def _add(self, partitions: set[TopicPartition]) -> None:
        """Make partitions part of the transaction, asking only once: see `fate`."""
        new = sorted(partitions - self._added)
        if not new:
            return
        try:
            self._transactions.add_partitions(self.identity, new, alone=True)
        except Unsettled as unsettled:
            raise StoreUnavailable(
                f"no answer whether {new[0]} is part of the transaction: {unsettled}",
                **self.identity.ids(),
            ) from unsettled
        self._added |= partitions


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
