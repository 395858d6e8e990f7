"""Ctrl-C and SIGTERM: the first asks for the end, the second ends at once."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_STEP_S: Final = 0.05


def _interrupt() -> None:
    raise KeyboardInterrupt


class Stop:
    """Whether somebody has asked for the end; by a signal after that `at_once` is called."""

    def __init__(self, at_once: Callable[[], None] = _interrupt) -> None:
        # A plain flag: a signal's handler must not wait for a lock that the main thread holds.
        self._asked = False
        self._at_once = at_once

    @property
    def asked(self) -> bool:
        """Whether the run shall end after the batch under way."""
        return self._asked

    def ask(self) -> None:
        """Ask for the end."""
        self._asked = True

    def signalled(self) -> None:
        """Ask for the end; where somebody has asked already, end at once."""
        if self.asked:
            self._at_once()
        self._asked = True

    def wait(self, seconds: float) -> None:
        """Wait so long, or until somebody asks."""
        until_s = time.monotonic() + seconds
        while not self._asked and (left_s := until_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _STEP_S))


@contextmanager
def stop_by_signals(at_once: Callable[[], None] = _interrupt) -> Iterator[Stop]:
    """Let SIGINT and SIGTERM ask for the end; what they did before comes back."""
    stop = Stop(at_once)

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.signalled()

    before: dict[int, Any] = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
