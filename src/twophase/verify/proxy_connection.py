"""One client's connection through the proxy: two streams of frames, each in its order."""

import contextlib
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from twophase.errors import ProtocolViolation
from twophase.verify.frames import Direction, Frame, read_payload, request_frame, response_frame
from twophase.verify.proxy_rules import Act, Caught, wait_released

_log = logging.getLogger("twophase.verify.proxy")

_HOLD_SECONDS_MAX = 600.0


class Judge(Protocol):
    """What a connection asks of the proxy it belongs to."""

    def judge(self, frame: Frame) -> tuple[bool, Caught | None]:
        """Return whether the frame is lost to a partition, and else the rule that takes it."""

    def count(self, frame: Frame) -> None:
        """Record a frame that is about to be forwarded."""

    def fail(self, error: ProtocolViolation) -> None:
        """Keep an error that no caller is there to receive."""


class Connection:
    """Moves frames between one client and one broker until either side ends."""

    def __init__(
        self, judge: Judge, number: int, port: int, client: socket.socket, upstream: socket.socket
    ) -> None:
        self._judge = judge
        self._number = number
        self._port = port
        self._client = client
        self._upstream = upstream
        self._closed = threading.Event()
        self._silent: set[Direction] = set()
        # A broker answers in the order of the requests; the second value takes an answer that the
        # client must not see.
        self._due: deque[tuple[Frame, Caught | None]] = deque()
        for sock in (client, upstream):
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self) -> None:
        """Serve the connection to its end; the caller closes the sockets."""
        answers = threading.Thread(target=self._guarded, args=(self._move_answers,), daemon=True)
        answers.start()
        self._guarded(self._move_requests)
        answers.join()

    def close(self) -> None:
        """End both streams at once, whoever waits in them."""
        self._closed.set()
        for sock in (self._client, self._upstream):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _guarded(self, move: Callable[[], None]) -> None:
        try:
            move()
        except ProtocolViolation as error:
            self._judge.fail(error)
            self.close()
        except OSError as error:
            _log.debug("connection %d ended: %s", self._number, error)
            self.close()
        except BaseException:
            # A bug in a test's own predicate: end the connection, so that nobody waits for it.
            self.close()
            raise

    def _move_requests(self) -> None:
        while (payload := read_payload(self._client)) is not None:
            frame = request_frame(payload, port=self._port, connection=self._number)
            lost, rule = self._rule_for(frame)
            if lost or not self._may_pass(frame, rule):
                continue
            self._send_request(frame, None)
            if rule is not None and rule.act is Act.DUPLICATE:
                self._send_request(frame, rule)
        # Half of it only: what was sent is still read and answered, as with a client that died.
        with contextlib.suppress(OSError):
            self._upstream.shutdown(socket.SHUT_WR)

    def _send_request(self, frame: Frame, keeper: Caught | None) -> None:
        if frame.answered:
            self._due.append((frame, keeper))
        self._judge.count(frame)
        self._upstream.sendall(frame.wire)

    def _move_answers(self) -> None:
        while (payload := read_payload(self._upstream)) is not None:
            if not self._due:
                raise ProtocolViolation("the broker sent an answer that nobody asked for")
            request, keeper = self._due.popleft()
            frame = response_frame(payload, request)
            if keeper is not None:
                keeper.keep_answer(frame)
                continue
            lost, rule = self._rule_for(frame)
            if lost or not self._may_pass(frame, rule):
                continue
            for _ in range(2 if rule is not None and rule.act is Act.DUPLICATE else 1):
                self._judge.count(frame)
                self._client.sendall(frame.wire)
        self.close()

    def _rule_for(self, frame: Frame) -> tuple[bool, Caught | None]:
        if frame.direction in self._silent:
            return True, None
        lost, rule = self._judge.judge(frame)
        if lost:
            self._silent.add(frame.direction)
        return lost, rule

    def _may_pass(self, frame: Frame, rule: Caught | None) -> bool:
        """Do to the frame what the rule says; False where it is not to be forwarded."""
        if rule is None or rule.act in {Act.CAPTURE, Act.DUPLICATE}:
            return True
        if rule.act is Act.DROP:
            self._silent.add(frame.direction)
            return False
        if rule.act is Act.DELAY:
            return not self._closed.wait(rule.seconds)
        if rule.act is Act.HOLD and wait_released(rule, self._closed, _HOLD_SECONDS_MAX):
            return True
        self.close()
        return False
