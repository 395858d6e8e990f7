"""One call of a sink while it goes on: written by the driver, read at any time by any thread.

A driver that hangs tells nobody. So whoever wants to know, as a scrape does, reads here how long
the batch takes and how old its transaction is; nothing has to be told for that.
"""

import threading
import time
from dataclasses import dataclass
from enum import StrEnum


class Recovery(StrEnum):
    """What had to be done beside writing the batch."""

    NONE = "none"
    STARTED = "started"
    ABORTED_OPEN = "aborted-open"
    SENT_AGAIN = "sent-again"
    FOUND_COMMITTED = "found-committed"
    COMMITTED_AGAIN = "committed-again"
    SKIPPED = "skipped"


class Phase(StrEnum):
    """Where a call is: asking the store, computing, bringing rows to the store, committing."""

    ASK = "ask"
    ENCODE = "encode"
    SEND = "send"
    COMMIT = "commit"


@dataclass(frozen=True, slots=True)
class Opening:
    """A transaction that is open: since when, and how long the store keeps it, None for ever."""

    began_s: float
    limit_s: float | None

    @property
    def age_s(self) -> float:
        """How long it is open by now."""
        return time.monotonic() - self.began_s


class CallWatch:
    """Phase, age, open transaction, retries and recovery of one call; decides nothing."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._open_s = 0.0
        self._lock = threading.Lock()
        # One value, so that a reader never has the age of one transaction and the limit of another.
        self.opening: Opening | None = None
        # Of the last transaction that was opened.
        self.limit_s: float | None = None
        self.phase = Phase.ASK
        self.retries = 0
        self.recovered = Recovery.NONE
        self.is_over = False

    def opens(self, limit_s: float | None, since_s: float | None = None) -> None:
        """Take note that a transaction may be open since then, or from now on, unless one is."""
        if self.opening is None:
            self.limit_s = limit_s
            self.opening = Opening(time.monotonic() if since_s is None else since_s, limit_s)

    def closes(self) -> None:
        """Take note that no transaction is open any more."""
        if self.opening is not None:
            self._open_s += self.opening.age_s
            self.opening = None

    def retried(self) -> None:
        """Count one more try; commits side by side do so from threads of their own."""
        with self._lock:
            self.retries += 1

    def stop(self) -> None:
        """End the call."""
        self.closes()
        self.is_over = True

    @property
    def total_s(self) -> float:
        """Since the call began."""
        return time.monotonic() - self._began_s

    @property
    def open_s(self) -> float:
        """How long transactions were open, all attempts together."""
        return self._open_s + self.open_now_s

    @property
    def open_now_s(self) -> float:
        """How long the present transaction may have been open; 0 where none is."""
        opening = self.opening
        return 0.0 if opening is None else opening.age_s
