"""Whether a broker answers as a member of a whole cluster, asked in Kafka's own protocol."""

import socket
import ssl
import struct

from twophase.embedded.settings import HOST

_METADATA, _METADATA_VERSION = 3, 1
_CLIENT = b"twophase-ready"
_TIMEOUT_S = 5.0
_NO_TOPICS = 0
_LARGEST_ANSWER = 1 << 20


def members(port: int, context: ssl.SSLContext | None = None) -> frozenset[int]:
    """Return the ids of the brokers this one knows of; none while it or its controller is not up.

    Asked by hand and not with a client library, whose own retries and log lines would be the
    larger part of a start. With a `context` by TLS.
    """
    try:
        with _connected(port, context) as connection:
            connection.sendall(_request())
            (size,) = struct.unpack(">i", _receive(connection, 4))
            if not 0 < size < _LARGEST_ANSWER:
                return frozenset()
            return _brokers(_receive(connection, size))
    except (OSError, struct.error, EOFError):
        return frozenset()


def _connected(port: int, context: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection((HOST, port), timeout=_TIMEOUT_S)
    if context is None:
        return plain
    try:
        return context.wrap_socket(plain, server_hostname=HOST)
    except OSError:
        plain.close()
        raise


def _request() -> bytes:
    header = struct.pack(">hhih", _METADATA, _METADATA_VERSION, 1, len(_CLIENT)) + _CLIENT
    body = struct.pack(">i", _NO_TOPICS)
    return struct.pack(">i", len(header) + len(body)) + header + body


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise EOFError
        received += chunk
    return received


def _brokers(answer: bytes) -> frozenset[int]:
    _, count = struct.unpack_from(">ii", answer)
    position, found = 8, set()
    for _ in range(count):
        (broker,) = struct.unpack_from(">i", answer, position)
        found.add(broker)
        position = _after_string(answer, position + 4) + 4
        position = _after_string(answer, position)
    (controller,) = struct.unpack_from(">i", answer, position)
    return frozenset(found) if controller >= 0 else frozenset()


def _after_string(answer: bytes, position: int) -> int:
    length: int = struct.unpack_from(">h", answer, position)[0]
    return position + 2 + max(length, 0)
