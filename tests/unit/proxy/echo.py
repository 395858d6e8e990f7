"""A broker and a client that know nothing but frames."""

import contextlib
import socket
import struct
import threading

from twophase.verify.frames import read_payload, request_frame


def request(
    api_key: int,
    correlation_id: int,
    body: bytes = b"",
    *,
    version: int = 0,
    client_id: str = "unit",
) -> bytes:
    """Return a request's payload with header version 1."""
    name = client_id.encode()
    header = struct.pack(">hhih", api_key, version, correlation_id, len(name))
    return header + name + body


class EchoBroker:
    """Answers every request with its correlation id and body, in order."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.02)
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._sockets: list[socket.socket] = []
        self._threads[0].start()

    @property
    def address(self) -> tuple[str, int]:
        """Where the broker listens."""
        return self._listener.getsockname()

    def _accept(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                sock, _ = self._listener.accept()
                sock.settimeout(None)
                self._sockets.append(sock)
                thread = threading.Thread(target=self._serve, args=(sock,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), sock:
            while (payload := read_payload(sock)) is not None:
                self.received.append(payload)
                frame = request_frame(payload, port=0, connection=0)
                if frame.answered:
                    answer = (
                        struct.pack(">i", frame.correlation_id)
                        + payload[10 + len(frame.client_id) :]
                    )
                    sock.sendall(struct.pack(">i", len(answer)) + answer)

    def close(self) -> None:
        """End every thread and socket."""
        self._stop.set()
        self._threads[0].join(60)
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        self._listener.close()


class Client:
    """A client of the proxy with one connection."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), 60)
        self.sock.settimeout(60)

    def send(self, payload: bytes) -> None:
        """Send one frame."""
        self.sock.sendall(struct.pack(">i", len(payload)) + payload)

    def ask(self, api_key: int, correlation_id: int, body: bytes = b"", **header) -> bytes | None:
        """Send a request and return its answer."""
        self.send(request(api_key, correlation_id, body, **header))
        return self.read()

    def read(self) -> bytes | None:
        """Return the next answer, None at the end of the stream."""
        return read_payload(self.sock)

    def silent(self, seconds: float = 0.1) -> bool:
        """Tell whether nothing comes for so long."""
        self.sock.settimeout(seconds)
        try:
            self.sock.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        else:
            return False
        finally:
            self.sock.settimeout(60)
