"""The ready check, against servers that are not a ready broker."""

import socket
import struct
import threading
from contextlib import contextmanager

import pytest

from twophase.embedded.ports import PortTaken, free_ports, is_free, port_taken
from twophase.embedded.ready import members

BROKERS = struct.pack(">i", 2) + b"".join(
    struct.pack(">ih4sih", number, 4, b"host", 9092, -1) for number in (1, 2)
)


@contextmanager
def server(answer):
    """Answer one connection with these bytes, then close it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


def framed(body):
    """Put size and correlation id before an answer's body."""
    return struct.pack(">ii", len(body) + 4, 1) + body


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (framed(BROKERS + struct.pack(">ii", 1, 0)), {1, 2}),
        (framed(BROKERS + struct.pack(">ii", -1, 0)), set()),
        (framed(BROKERS[:9]), set()),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", set()),
        (b"", set()),
    ],
    ids=["ready", "no controller", "cut short", "another protocol", "closed"],
)
def test_answer(answer, expected):
    """Only a whole answer with a controller counts."""
    with server(answer) as port:
        assert members(port) == expected


def test_nobody_listens():
    """A port without a listener is no member of anything."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        assert members(nobody.getsockname()[1]) == frozenset()


def test_ports_are_free_and_different():
    """Ports are handed out once each, and one that is listened on is not free."""
    assert len(set(free_ports(12))) == 12
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not is_free(port)
        assert str(port) in str(port_taken(port))
        assert isinstance(port_taken(port), PortTaken)
