"""A block: finished records of one topic-partition, waiting for the identity of their sender."""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import google_crc32c
import pyarrow as pa

from twophase.errors import ProtocolViolation, SetupError
from twophase.kafka.compression import Codec

if google_crc32c.implementation != "c":
    # The pure Python checksum does 5 MB a second: a sink would look hung, not slow.
    raise SetupError(
        "google-crc32c has no compiled checksum for this machine"
        f" (found the {google_crc32c.implementation!r} one); install a wheel of google-crc32c that"
        " has it, or build it with libcrc32c"
    )

HEADER_BYTES = 61

_MAGIC = 2
_TRANSACTIONAL = 0x10
_NO_LEADER_EPOCH = -1

# Base offset, length, leader epoch, magic, checksum: what the checksum does not cover.
_FRONT = struct.Struct(">qiibI")
# Attributes, last offset delta, timestamps, producer id, epoch, sequence, count: what it covers.
_CHECKED = struct.Struct(">hiqqqhii")
# The length counts what follows it: all but base offset and length.
_UNCOUNTED_BYTES = 12


@dataclass(frozen=True, slots=True)
class Block:
    """A record batch for one topic-partition, but for producer id, epoch, sequence and checksum.

    `body` is Arrow's buffer: a slice without a copy where nothing is compressed, and it survives
    pickling.
    """

    topic: str
    partition: int
    count: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    codec: Codec
    body: pa.Buffer

    @property
    def size_bytes(self) -> int:
        """Bytes on the wire: header and body."""
        return HEADER_BYTES + int(self.body.size)


def together(blocks: Iterable[Block], most_bytes: int) -> Iterator[list[Block]]:
    """Yield blocks in groups of about so many bytes, in the order in which they come."""
    group: list[Block] = []
    size_bytes = 0
    for block in blocks:
        if group and size_bytes + block.size_bytes > most_bytes:
            yield group
            group, size_bytes = [], 0
        group.append(block)
        size_bytes += block.size_bytes
    if group:
        yield group


def stamp(
    block: Block, producer_id: int, epoch: int, base_sequence: int, *, transactional: bool
) -> bytes:
    """Return the 61 bytes that go before `block.body` and make it a record batch.

    Without idempotence all three numbers are -1, as the Java client sets them.
    """
    if block.count < 1:
        raise ProtocolViolation("a block without records", topic=block.topic)
    if transactional and producer_id < 0:
        raise ProtocolViolation("a transactional block without a producer id", topic=block.topic)
    checked = _CHECKED.pack(
        block.codec | (_TRANSACTIONAL if transactional else 0),
        block.count - 1,
        block.base_timestamp_ms,
        block.max_timestamp_ms,
        producer_id,
        epoch,
        base_sequence,
        block.count,
    )
    checksum = google_crc32c.extend(google_crc32c.value(checked), block.body)
    length = block.size_bytes - _UNCOUNTED_BYTES
    return _FRONT.pack(0, length, _NO_LEADER_EPOCH, _MAGIC, checksum) + checked
