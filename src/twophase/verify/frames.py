"""Kafka's outer frame: size, request header, correlation id; just enough to tell frames apart."""

import socket
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal

from twophase.errors import ProtocolViolation

Direction = Literal["request", "response"]

# Twice what a broker accepts by default; anything larger is not Kafka's protocol.
FRAME_BYTES_MAX = 2 * 104_857_600

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhi")
_INT16 = struct.Struct(">h")
_FLEXIBLE_PRODUCE_VERSION = 9
_TRANSACTIONAL_PRODUCE_VERSION = 3


class ApiKey(IntEnum):
    """The requests that tests name; the numbers are Kafka's."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    DELETE_GROUPS = 42
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66


_NAMED = frozenset(ApiKey)


@dataclass(frozen=True, slots=True)
class Frame:
    """One request or answer on its way; `payload` is everything behind the four bytes of size."""

    direction: Direction
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    port: int
    connection: int
    payload: bytes = field(repr=False)

    @property
    def wire(self) -> bytes:
        """The frame as it travels, size first."""
        return _SIZE.pack(len(self.payload)) + self.payload

    @property
    def answered(self) -> bool:
        """Whether the broker will answer; a Produce with acks=0 gets nothing."""
        return self.api_key != ApiKey.PRODUCE or _acks(self) != 0


def read_payload(sock: socket.socket) -> bytes | None:
    """Return one frame without its size, or None where the stream ends before or inside it."""
    head = _read_exactly(sock, _SIZE.size)
    if head is None:
        return None
    (size,) = _SIZE.unpack(head)
    if not 0 <= size <= FRAME_BYTES_MAX:
        raise ProtocolViolation(f"a frame of {size} bytes is not Kafka's protocol; is this TLS?")
    return _read_exactly(sock, size)


def request_frame(payload: bytes, *, port: int, connection: int) -> Frame:
    """Return the request with its header decoded."""
    if len(payload) < _HEADER.size + _INT16.size:
        raise ProtocolViolation(f"a request of {len(payload)} bytes has no whole header")
    api_key, api_version, correlation_id = _HEADER.unpack_from(payload)
    client_id, _ = _nullable_string(payload, _HEADER.size)
    if api_key in _NAMED:
        api_key = ApiKey(api_key)
    return Frame(
        "request", api_key, api_version, correlation_id, client_id, port, connection, payload
    )


def response_frame(payload: bytes, request: Frame) -> Frame:
    """Return the answer to that request; refuse one that answers something else."""
    if len(payload) < _SIZE.size:
        raise ProtocolViolation(f"an answer of {len(payload)} bytes has no correlation id")
    (correlation_id,) = _SIZE.unpack_from(payload)
    if correlation_id != request.correlation_id:
        raise ProtocolViolation(
            f"answer {correlation_id} came where {request.correlation_id} was due"
        )
    return Frame(
        "response",
        request.api_key,
        request.api_version,
        correlation_id,
        request.client_id,
        request.port,
        request.connection,
        payload,
    )


def _acks(request: Frame) -> int:
    """Return a Produce request's acks, which stands behind the transactional id."""
    _, at = _nullable_string(request.payload, _HEADER.size)
    if request.api_version >= _FLEXIBLE_PRODUCE_VERSION:
        at = _skip_tags(request.payload, at)
        size, at = _unsigned_varint(request.payload, at)
        at += max(0, size - 1)
    elif request.api_version >= _TRANSACTIONAL_PRODUCE_VERSION:
        _, at = _nullable_string(request.payload, at)
    acks: int = _INT16.unpack_from(request.payload, at)[0]
    return acks


def _nullable_string(payload: bytes, at: int) -> tuple[str | None, int]:
    (size,) = _INT16.unpack_from(payload, at)
    at += _INT16.size
    if size < 0:
        return None, at
    return payload[at : at + size].decode("utf-8", "replace"), at + size


def _skip_tags(payload: bytes, at: int) -> int:
    count, at = _unsigned_varint(payload, at)
    for _ in range(count):
        _, at = _unsigned_varint(payload, at)
        size, at = _unsigned_varint(payload, at)
        at += size
    return at


def _unsigned_varint(payload: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return value, at
    raise ProtocolViolation("a varint of more than five bytes")


def _read_exactly(sock: socket.socket, size: int) -> bytes | None:
    data = bytearray(size)
    view = memoryview(data)
    done = 0
    while done < size:
        count = sock.recv_into(view[done:])
        if count == 0:
            return None
        done += count
    return bytes(data)
