"""What the output partitions of one batch hold: counted and digested, equal or not the same."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class PartitionSummary:
    """One output partition: how many blocks, rows and bytes, and the digest of the blocks."""

    topic: str
    partition: int
    blocks: int
    rows: int
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Every output partition that gets blocks, in order of topic and partition."""

    partitions: tuple[PartitionSummary, ...] = ()

    def without(self, topic: str | None) -> "Summary":
        """Return what all output partitions but those of one topic hold."""
        return Summary(tuple(found for found in self.partitions if found.topic != topic))

    @property
    def rows(self) -> int:
        """Rows of the whole batch."""
        return sum(found.rows for found in self.partitions)

    @property
    def bytes(self) -> int:
        """Bytes of the whole batch."""
        return sum(found.bytes for found in self.partitions)


def digest(checksums: Iterable[int]) -> str:
    """Return the digest of blocks in this order; no other order or set of blocks has it."""
    found = hashlib.blake2b(digest_size=16)
    for checksum in checksums:
        found.update(checksum.to_bytes(8, "big"))
    return found.hexdigest()
