"""Who writes: the small values that travel between driver and executors."""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, NamedTuple


class TransactionVersion(IntEnum):
    """The broker's finalised `transaction.version`, which picks the protocol of a transaction.

    V1: InitProducerId before each transaction, AddPartitionsToTxn, EndTxn up to v4.
    V2 (KIP-890): Produce v12 adds partitions by itself, EndTxn v5 returns the next epoch.
    """

    V1 = 1
    V2 = 2


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Identity:
    """All that a process needs to write into, commit or abort one transaction.

    The version belongs to it: a broker answers PRODUCER_FENCED when a transaction that was ended
    under one version is asked for under the other, which would look like a rival.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    version: TransactionVersion

    @property
    def transactional(self) -> bool:
        """Whether blocks of this identity belong to a transaction."""
        return True

    def successor(self, producer_id: int, epoch: int) -> "Identity":
        """Return the identity of the next transaction of the same transactional id."""
        return replace(self, producer_id=producer_id, epoch=epoch)

    def ids(self) -> dict[str, object]:
        """Return what every error about this transaction carries."""
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "epoch": self.epoch,
        }


@dataclass(frozen=True, slots=True)
class Producer:
    """Who writes outside of any transaction: what is acknowledged is visible at once.

    With a producer id the broker recognises repeats, as it does in a transaction. NOBODY has none.
    """

    producer_id: int
    epoch: int

    @property
    def transactional(self) -> bool:
        """Whether blocks of this producer belong to a transaction."""
        return False

    def ids(self) -> dict[str, object]:
        """Return what every error about this producer carries."""
        if self == NOBODY:
            return {}
        return {"producer_id": self.producer_id, "epoch": self.epoch}


NOBODY: Final = Producer(-1, -1)
