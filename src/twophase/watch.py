"""What one call of a sink did and how long: gathered beside the loop, deciding nothing."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from enum import StrEnum

from twophase.commit.effects import (
    Commit,
    Effect,
    Finished,
    Outcome,
    Own,
    Prepare,
    Reacquire,
    Send,
    WriteMarker,
)
from twophase.commit.events import Event, LastTransactionSeen, Prepared
from twophase.commit.recovery import LastTransaction
from twophase.commit.summary import Summary


class Recovery(StrEnum):
    """What had to be done beside writing the batch."""

    NONE = "none"
    STARTED = "started"
    ABORTED_OPEN = "aborted-open"
    SENT_AGAIN = "sent-again"
    FOUND_COMMITTED = "found-committed"
    SKIPPED = "skipped"


class Watch:
    """One call: times per effect, the time a transaction was open, what the batch holds.

    A transaction counts as open from the first effect that writes into it until its commit or its
    re-acquire has returned. Once it is open for longer than `alarm_after_s()`, `alarm` is called
    from a thread of its own.
    """

    def __init__(
        self,
        alarm_after_s: Callable[[], float] | None = None,
        alarm: Callable[[], None] | None = None,
    ) -> None:
        self._began_s = time.monotonic()
        self._effect_began_s = 0.0
        self._spent_s: dict[type, float] = defaultdict(float)
        self._alarm_after_s, self._alarm = alarm_after_s, alarm
        self._timer: threading.Timer | None = None
        self._opened_s: float | None = None
        self._open_s = 0.0
        self._last: LastTransaction | None = None
        self._owned = False
        self.summary = Summary()

    def begins(self, effect: Effect) -> None:
        """Take note that an effect is about to be performed."""
        self._effect_began_s = time.monotonic()
        if isinstance(effect, Send | WriteMarker) and self._opened_s is None:
            self._opened_s = self._effect_began_s
            self._set_alarm()
        self._owned = self._owned or isinstance(effect, Own)

    def ended(self, effect: Effect, event: Event) -> None:
        """Take note of what came of it."""
        now_s = time.monotonic()
        self._spent_s[type(effect)] += now_s - self._effect_began_s
        if isinstance(effect, Commit | Reacquire):
            self._closed(now_s)
        if isinstance(event, LastTransactionSeen):
            self._last = event.last
        if isinstance(event, Prepared):
            self.summary = event.summary

    def stop(self) -> None:
        """End the call; nothing alarms any more."""
        self._closed(time.monotonic())

    @property
    def total_s(self) -> float:
        """Since the call began."""
        return time.monotonic() - self._began_s

    @property
    def encode_s(self) -> float:
        """The user's own computation, encoding, routing and materialising."""
        return self._spent_s[Prepare]

    @property
    def send_s(self) -> float:
        """Sending, all attempts together."""
        return self._spent_s[Send]

    @property
    def commit_s(self) -> float:
        """Marker and commit."""
        return self._spent_s[WriteMarker] + self._spent_s[Commit]

    @property
    def open_s(self) -> float:
        """How long transactions held up the topic's readers, all attempts together."""
        return self._open_s + self.open_now_s

    @property
    def open_now_s(self) -> float:
        """How long the present transaction may have been open; 0 where none is."""
        return time.monotonic() - self._opened_s if self._opened_s is not None else 0.0

    def recovery(self, finished: Finished | None) -> Recovery:
        """Return the one thing beside writing that says most about the call."""
        if finished is not None and finished.outcome is Outcome.SKIPPED:
            return Recovery.SKIPPED
        if finished is not None and finished.outcome is Outcome.COMMITTED_BEFORE:
            return Recovery.FOUND_COMMITTED
        if finished is not None and finished.attempts > 1:
            return Recovery.SENT_AGAIN
        if self._last is LastTransaction.OPEN:
            return Recovery.ABORTED_OPEN
        return Recovery.STARTED if self._owned else Recovery.NONE

    def _set_alarm(self) -> None:
        if self._alarm_after_s is None or self._alarm is None:
            return
        self._timer = threading.Timer(self._alarm_after_s(), self._alarm)
        self._timer.daemon = True
        self._timer.start()

    def _closed(self, now_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._opened_s is not None:
            self._open_s += now_s - self._opened_s
            self._opened_s = None
