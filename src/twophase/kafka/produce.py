"""The Produce request of many blocks, written without copies, and how its answer is read."""

import struct
from collections import defaultdict
from typing import Any, Final

from kafka.protocol.producer.produce import ProduceRequest

from twophase.errors import BlockRefused, ProtocolViolation, TwoPhaseError
from twophase.kafka import answers
from twophase.kafka.identity import Identity, Producer, TopicPartition, TransactionVersion
from twophase.kafka.lane import Parcel
from twophase.kafka.options import ALL_REPLICAS
from twophase.kafka.rights import DENIED, TRANSACTIONAL_ID, missing

_NO_TAGS: Final = b"\0"
_NULL: Final = b"\0"
_SEVEN_BITS: Final = 0x7F

Sent = dict[TopicPartition, Parcel]


class Produce(ProduceRequest, init=False):  # type: ignore[misc, call-arg]
    """A Produce request that copies its blocks once, from where they lie into the frame.

    kafka-python's own encoder copies them three times; the bytes are the same. Only flexible
    versions are spoken: 9 to 11 under version 1, 12 under version 2, which adds partitions to the
    transaction by itself, and either outside of a transaction. 13 wants topic ids.
    """

    sent: Sent

    def encode(
        self, version: int | None = None, *, header: bool = False, framed: bool = False
    ) -> bytes:
        """Return the frame; the arguments are what kafka-python's connection passes."""
        if version is not None or not header or not framed:
            raise ProtocolViolation("a Produce request is encoded whole, for its connection only")
        return _frame(self.encode_header(flexible=True), self)


def produce_request(
    identity: Identity | Producer, sent: Sent, timeout_ms: int, acks: int = ALL_REPLICAS
) -> Any:
    """Return one request with one block for each partition."""
    name, lowest, highest = None, 9, 12
    if isinstance(identity, Identity):
        second = identity.version is TransactionVersion.V2
        name, lowest, highest = identity.transactional_id, *((12, 12) if second else (9, 11))
    request = Produce(
        transactional_id=name,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[],
        min_version=lowest,
        max_version=highest,
    )
    request.sent = sent
    return request


def _frame(header: bytes, request: Any) -> bytes:
    by_topic: dict[str, list[tuple[int, Parcel]]] = defaultdict(list)
    for (topic, partition), parcel in request.sent.items():
        by_topic[topic].append((partition, parcel))
    parts: list[Any] = [
        header,
        _text(request.transactional_id),
        struct.pack(">hi", request.acks, request.timeout_ms),
        _count(len(by_topic)),
    ]
    for topic, found in by_topic.items():
        parts += [_text(topic), _count(len(found))]
        for partition, parcel in found:
            place = struct.pack(">i", partition)
            parts += [place, _count(parcel.size_bytes), parcel.header, parcel.block.body]
            parts.append(_NO_TAGS)
        parts.append(_NO_TAGS)
    parts.append(_NO_TAGS)
    size = sum(map(len, parts))
    return b"".join((struct.pack(">i", size), *parts))


def _text(text: str | None) -> bytes:
    if text is None:
        return _NULL
    encoded = text.encode()
    return _count(len(encoded)) + encoded


def _count(number: int) -> bytes:
    """Return a compact length: the number plus one, as an unsigned varint."""
    rest, out = number + 1, bytearray()
    while rest > _SEVEN_BITS:
        out.append(rest & _SEVEN_BITS | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def rows_of(answer: Any) -> dict[TopicPartition, Any]:
    """Return what the broker says about each partition."""
    return {
        TopicPartition(topic.name, row.index): row
        for topic in answer.responses
        for row in topic.partition_responses
    }


def refusal(
    verdict: type[TwoPhaseError],
    partition: TopicPartition,
    parcel: Parcel,
    row: Any,
    producer: Identity | Producer,
) -> TwoPhaseError:
    """Return the error for a block that the broker will not have."""
    said = f": {row.error_message}" if row.error_message else ""
    text = (
        f"{partition}: the broker refuses a block of {parcel.block.count} rows and "
        f"{parcel.size_bytes} bytes with {answers.name_of(row.error_code)}{said}"
    )
    if row.error_code in DENIED:
        text += f"; {missing('Produce', row.error_code, [_resource(partition, row, producer)])}"
    if row.error_code == answers.INVALID_TIMESTAMP:
        text += (
            "; a row's timestamp is out of the topic's bounds, or grew too old while the batch was "
            "computed and sent: raise message.timestamp.before.max.ms (or after.max.ms)"
        )
    elif verdict is BlockRefused:
        text += (
            "; where it is too large, raise the topic's max.message.bytes or lower "
            "kafka.batch.size and kafka.max.request.size"
        )
    return verdict(text)


def _resource(partition: TopicPartition, row: Any, producer: Identity | Producer) -> str:
    if DENIED[row.error_code] == TRANSACTIONAL_ID and isinstance(producer, Identity):
        return producer.transactional_id
    return partition.topic
