"""A TCP proxy that understands Kafka's frame and can lose, delay, hold, double or cut it.

Clients that bootstrap at the proxy stay with it when the brokers advertise the proxy's ports, so
no answer is rewritten. Two threads per connection move whole frames; answers are matched to
requests in order, as a broker gives them. TLS, and SASL before Kafka 1.0, cannot be read.
"""

import contextlib
import logging
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Self

from twophase.errors import ProtocolViolation, SetupError
from twophase.verify.frames import ApiKey, Direction, Frame
from twophase.verify.proxy_connection import Connection
from twophase.verify.proxy_rules import Caught, Predicate, Selection, Upstream

__all__ = ["ApiKey", "Caught", "Frame", "KafkaProxy", "Selection"]

_log = logging.getLogger("twophase.verify.proxy")

_CONNECT_SECONDS = 5.0
_ACCEPT_SECONDS = 0.1
_STOP_SECONDS = 5.0


class KafkaProxy:
    """Forwards 127.0.0.1:<advertised port> to a broker; rules change what passes.

    `upstreams` maps each advertised port to the broker's real (host, port).
    """

    def __init__(self, upstreams: Mapping[int, Upstream]) -> None:
        self._upstreams = dict(upstreams)
        self._lock = threading.RLock()
        self._rules: list[Caught] = []
        self._passed: Counter[tuple[int, Direction]] = Counter()
        self._connections: dict[int, Connection] = {}
        self._accepted = 0
        self._listeners: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._partitioned = False
        self._failures: list[ProtocolViolation] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """What a client of the proxy bootstraps with."""
        return ",".join(f"127.0.0.1:{port}" for port in self._upstreams)

    def start(self) -> None:
        """Listen on every advertised port, or on none."""
        for port in self._upstreams:
            try:
                self._listeners.append(socket.create_server(("127.0.0.1", port)))
            except OSError as error:
                self.stop()
                raise SetupError(f"the proxy cannot listen on port {port}: {error}") from error
        for port, listener in zip(self._upstreams, self._listeners, strict=True):
            self._run(self._accept, port, listener)

    def stop(self) -> None:
        """Close every socket and end every thread; raise what a connection could not make out."""
        with self._lock:
            self._stopping.set()
        for listener in self._listeners:
            # Wakes the thread that accepts; where it does not, that thread looks soon enough.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        self.cut_all()
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(_STOP_SECONDS)
            if thread.is_alive():
                raise ProtocolViolation(f"thread {thread.name} of the proxy did not end")
        for listener in self._listeners:
            listener.close()
        if self._failures:
            raise self._failures[0]

    def on(
        self, api_key: int, direction: Direction = "request", *, where: Predicate | None = None
    ) -> Selection:
        """Select one kind of frame; `where` narrows it by header, connection or raw bytes."""
        return Selection(api_key, direction, where, self._rules, self._lock, self._upstreams)

    def clear(self) -> None:
        """Forget every rule and let go of what they hold."""
        with self._lock:
            for rule in self._rules:
                rule.remove()
                rule.release()
            self._rules.clear()

    def partition(self) -> None:
        """Lose every frame from now on; connections stay open and new ones are accepted."""
        with self._lock:
            self._partitioned = True

    def heal(self) -> None:
        """End the partition; a connection that lost a frame stays silent until it is closed."""
        with self._lock:
            self._partitioned = False

    def cut_all(self) -> None:
        """Close every connection on both sides."""
        with self._lock:
            connections = list(self._connections.values())
        for connection in connections:
            connection.close()

    def passed(self, api_key: int, direction: Direction = "request") -> int:
        """Return how many such frames were forwarded so far, second copies included."""
        with self._lock:
            return self._passed[api_key, direction]

    @property
    def connection_count(self) -> int:
        """How many clients are connected now."""
        with self._lock:
            return len(self._connections)

    def judge(self, frame: Frame) -> tuple[bool, Caught | None]:
        """Return whether the frame is lost to a partition, and else the rule that takes it."""
        with self._lock:
            if self._partitioned:
                return True, None
            return False, next((rule for rule in self._rules if rule.matches(frame)), None)

    def count(self, frame: Frame) -> None:
        """Record a frame that is about to be forwarded."""
        with self._lock:
            self._passed[frame.api_key, frame.direction] += 1

    def fail(self, error: ProtocolViolation) -> None:
        """Keep what went wrong in a thread, to be raised by `stop`."""
        _log.error("a connection was cut: %s", error)
        self._failures.append(error)

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True, name="twophase-proxy")
        with self._lock:
            self._threads = [old for old in self._threads if old.is_alive()]
            self._threads.append(thread)
            thread.start()

    def _accept(self, port: int, listener: socket.socket) -> None:
        listener.settimeout(_ACCEPT_SECONDS)
        while not self._stopping.is_set():
            try:
                client, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                self._stopping.wait(_ACCEPT_SECONDS)
                continue
            self._run(self._serve, port, client)

    def _serve(self, port: int, client: socket.socket) -> None:
        try:
            upstream = socket.create_connection(self._upstreams[port], _CONNECT_SECONDS)
        except OSError as error:
            _log.debug("the broker behind port %d does not answer: %s", port, error)
            client.close()
            return
        with client, upstream:
            with self._lock:
                if self._stopping.is_set():
                    return
                self._accepted += 1
                number = self._accepted
                connection = Connection(self, number, port, client, upstream)
                self._connections[number] = connection
            try:
                connection.run()
            finally:
                with self._lock:
                    del self._connections[number]
