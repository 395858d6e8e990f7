"""The time, as whoever waits for a store sees it."""

import time


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
