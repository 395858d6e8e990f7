"""The time, as whoever waits for a store sees it."""

import time
from collections.abc import Callable
from threading import Timer


class Clock:
    """This machine's clocks; a simulation has another, in which nobody waits."""

    def now_s(self) -> float:
        """Return seconds since some moment, never going back."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """Return milliseconds since 1970."""
        return int(time.time() * 1000)

    def sleep(self, seconds: float) -> None:
        """Return after this time."""
        time.sleep(seconds)

    def after(self, seconds: float, act: Callable[[], None]) -> Callable[[], None]:
        """Act once after this time, in a thread of its own; return how to call that off."""
        timer = Timer(seconds, act)
        timer.daemon = True
        timer.start()
        return timer.cancel
