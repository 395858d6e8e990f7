"""What happens to chosen frames on their way: the rules of a proxy, and the handles on them."""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from twophase.errors import ConfigurationError
from twophase.verify.frames import Direction, Frame, read_payload

Predicate = Callable[[Frame], bool]
Upstream = tuple[str, int]

WAIT_SECONDS = 10.0
_FRAMES_KEPT_MAX = 256


class Act(Enum):
    """What a rule does to a frame; every act leaves a copy of it in the handle."""

    DROP = "drop"
    DELAY = "delay"
    HOLD = "hold"
    DUPLICATE = "duplicate"
    CUT = "cut"
    CAPTURE = "capture"


class Caught:
    """A handle on one rule: what it caught so far, and the means to let it go or send it again."""

    def __init__(self, selection: "Selection", act: Act, times: int | None, seconds: float) -> None:
        self._selection = selection
        self._left = times
        self._changed = threading.Condition(selection.lock)
        self._frames: deque[Frame] = deque(maxlen=_FRAMES_KEPT_MAX)
        self._answers: deque[Frame] = deque(maxlen=_FRAMES_KEPT_MAX)
        self._count = 0
        self.act = act
        self.seconds = seconds
        self.released = threading.Event()

    @property
    def count(self) -> int:
        """How many frames the rule caught."""
        with self._changed:
            return self._count

    @property
    def frames(self) -> list[Frame]:
        """The caught frames, the oldest first; the last 256 of them."""
        with self._changed:
            return list(self._frames)

    @property
    def answers(self) -> list[Frame]:
        """The broker's answers to second copies of requests, which no client saw."""
        with self._changed:
            return list(self._answers)

    def wait_caught(self, timeout: float = WAIT_SECONDS, *, times: int = 1) -> Frame:
        """Return the frame that was caught last, once there were so many; else TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._count >= times, timeout):
                raise TimeoutError(f"{self} caught {self._count} of {times} in {timeout} s")
            return self._frames[-1]

    def wait_answer(self, timeout: float = WAIT_SECONDS) -> Frame:
        """Return the swallowed answer to a duplicated request; else TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._answers), timeout):
                raise TimeoutError(f"{self} saw no second answer in {timeout} s")
            return self._answers[-1]

    def release(self) -> None:
        """Let held frames go on, and everything that waits behind them; idempotent."""
        self.released.set()

    def remove(self) -> None:
        """Catch nothing more; what is held stays held until release."""
        with self._changed:
            self._left = 0

    def deliver(self, frame: Frame | None = None, *, timeout: float = WAIT_SECONDS) -> bytes:
        """Send a copy of a caught request to its broker, over a connection of its own.

        Returns the answer without its size (empty where the broker answers nothing), as if a
        packet of a dead client had come late.
        """
        request = frame or self.wait_caught(timeout)
        if request.direction != "request":
            raise ConfigurationError("only a request can be delivered", api_key=request.api_key)
        upstream = self._selection.upstreams[request.port]
        with socket.create_connection(upstream, timeout) as sock:
            sock.settimeout(timeout)
            sock.sendall(request.wire)
            if not request.answered:
                sock.shutdown(socket.SHUT_WR)
                read_payload(sock)  # Returns when the broker has read all and closes.
                return b""
            answer = read_payload(sock)
        if answer is None:
            raise ConnectionResetError("the broker closed the connection without an answer")
        return answer

    def matches(self, frame: Frame) -> bool:
        """Take the frame if the rule is for it; the proxy calls this under its lock."""
        if self._left == 0 or not self._selection.covers(frame):
            return False
        if self._left is not None:
            self._left -= 1
        self._frames.append(frame)
        self._count += 1
        self._changed.notify_all()
        return True

    def keep_answer(self, frame: Frame) -> None:
        """Keep the answer to a second copy, which the client must not see."""
        with self._changed:
            self._answers.append(frame)
            self._changed.notify_all()

    def __repr__(self) -> str:
        return f"{self.act.value} of {self._selection}"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which frames a rule is for; its methods say what becomes of them and return the handle.

    Without `times` a rule is for the next frame only; `times=None` is for every one. On a stream
    nothing overtakes: what is held or delayed holds up all that comes behind it.
    """

    api_key: int
    direction: Direction
    where: Predicate | None
    rules: list[Caught]
    lock: threading.RLock
    upstreams: dict[int, Upstream]

    def drop(self, *, times: int | None = 1) -> Caught:
        """Lose the frame and all behind it on its connection: a network loses no middle part."""
        return self._add(Act.DROP, times)

    def delay(self, seconds: float, *, times: int | None = 1) -> Caught:
        """Forward the frame so much later."""
        return self._add(Act.DELAY, times, seconds)

    def hold(self, *, times: int | None = 1) -> Caught:
        """Keep the frame until `release`; a request then still reaches the broker."""
        return self._add(Act.HOLD, times)

    def duplicate(self, *, times: int | None = 1) -> Caught:
        """Forward the frame twice; the answer to a request's second copy goes to the handle."""
        return self._add(Act.DUPLICATE, times)

    def cut(self, *, times: int | None = 1) -> Caught:
        """Close both sides of the connection instead of forwarding the frame."""
        return self._add(Act.CUT, times)

    def capture(self, *, times: int | None = 1) -> Caught:
        """Forward the frame as it is; the copy in the handle can be delivered later."""
        return self._add(Act.CAPTURE, times)

    def covers(self, frame: Frame) -> bool:
        """Whether the frame is one of those selected."""
        return (
            frame.api_key == self.api_key
            and frame.direction == self.direction
            and (self.where is None or self.where(frame))
        )

    def _add(self, act: Act, times: int | None, seconds: float = 0.0) -> Caught:
        caught = Caught(self, act, times, seconds)
        with self.lock:
            self.rules.append(caught)
        return caught

    def __str__(self) -> str:
        name = getattr(self.api_key, "name", self.api_key)
        return f"{name} {self.direction}"


def wait_released(caught: Caught, closed: threading.Event, limit_seconds: float) -> bool:
    """Wait until the rule lets go; False where the connection closed or the limit passed first."""
    deadline = time.monotonic() + limit_seconds
    while time.monotonic() < deadline and not closed.is_set():
        if caught.released.wait(0.02):
            return True
    return False
