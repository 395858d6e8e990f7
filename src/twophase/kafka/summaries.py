"""What a set of blocks holds, per output partition: the same value before and after sending."""

from collections import defaultdict
from collections.abc import Iterable

import google_crc32c

from twophase.commit.summary import PartitionSummary, Summary, digest
from twophase.errors import CommitRejected
from twophase.kafka.blocks import Block
from twophase.kafka.identity import TopicPartition
from twophase.kafka.lane import Acknowledged


def checksum_of(block: Block) -> int:
    """Return a number that tells the block's content from any other."""
    return int(google_crc32c.value(block.body))


class Tally:
    """What blocks hold, counted as they pass by; nothing of them is kept."""

    def __init__(self) -> None:
        self._found: dict[TopicPartition, list[tuple[int, int, int]]] = defaultdict(list)

    def add(self, block: Block) -> None:
        """Count one block."""
        place = TopicPartition(block.topic, block.partition)
        self._found[place].append((block.count, block.size_bytes, checksum_of(block)))

    def summary(self) -> Summary:
        """Return what each output partition got, its blocks in the order in which they passed."""
        return Summary(
            tuple(
                PartitionSummary(
                    topic=place.topic,
                    partition=place.partition,
                    blocks=len(parts),
                    rows=sum(rows for rows, _, _ in parts),
                    bytes=sum(size for _, size, _ in parts),
                    digest=digest(checksum for _, _, checksum in parts),
                )
                for place, parts in sorted(self._found.items())
            )
        )


def summarise(blocks: Iterable[Block]) -> Summary:
    """Return what each output partition gets, its blocks in the given order."""
    tally = Tally()
    for block in blocks:
        tally.add(block)
    return tally.summary()


def confirmed(sent: Summary, acknowledged: Iterable[Acknowledged]) -> Summary:
    """Return `sent` if the broker has confirmed all of it; raise otherwise."""
    said = {done.partition: (done.blocks, done.records, done.size_bytes) for done in acknowledged}
    for part in sent.partitions:
        place = TopicPartition(part.topic, part.partition)
        if said.pop(place, None) != (part.blocks, part.rows, part.bytes):
            raise CommitRejected(f"{place}: the broker has not confirmed what was sent")
    if said:
        raise CommitRejected(f"the broker confirms what was not sent: {sorted(map(str, said))}")
    return sent
