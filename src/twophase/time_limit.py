"""How much a batch has used of the time for which the store keeps its transactions."""

from collections.abc import Callable
from typing import Final

from twophase.clock import Clock

_WARN_AT: Final = 0.8
# What is decided must still be committed in time: nothing is decided in the last twentieth.
_DECIDED_BY: Final = 0.95


class TimeLimit:
    """Counts from the moment before the first transaction that may be committed; None is for ever.

    `warn` is called from a thread of its own once four fifths are spent, with how many seconds
    that is.
    """

    def __init__(self, clock: Clock, limit_s: float | None, warn: Callable[[float], None]) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._warn = warn
        self._began_s = clock.now_s()
        self._call_off: Callable[[], None] = lambda: None

    def begins(self) -> None:
        """Count from now on: whatever was open before is ended."""
        self.ends()
        self._began_s = self._clock.now_s()
        if self._limit_s is not None:
            after_s = self._limit_s * _WARN_AT
            self._call_off = self._clock.after(after_s, lambda: self._warn(after_s))

    def ends(self) -> None:
        """Warn no more: nothing is open."""
        self._call_off()

    @property
    def spent_s(self) -> float:
        """How old the oldest transaction may be."""
        return self._clock.now_s() - self._began_s

    @property
    def is_too_late(self) -> bool:
        """Whether no time is left to commit."""
        return self._limit_s is not None and self.spent_s >= self._limit_s * _DECIDED_BY
