"""What one call of a sink did and how long: gathered beside the loop, deciding nothing."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable

from twophase.call_watch import CallWatch, Phase, Recovery
from twophase.commit.effects import (
    Commit,
    Effect,
    ExecutePlan,
    Finished,
    Outcome,
    Own,
    Prepare,
    Send,
    WriteMarker,
)
from twophase.commit.events import (
    BlocksLost,
    CommitRefused,
    Committed,
    CommitUnknown,
    Event,
    FencedOff,
    LastTransactionSeen,
    MarkerFailed,
    Prepared,
    PrepareFailed,
    Reacquired,
    SendFailed,
)
from twophase.commit.recovery import LastTransaction
from twophase.commit.summary import Summary

_PHASES = {
    Prepare: Phase.ENCODE,
    ExecutePlan: Phase.ENCODE,
    Send: Phase.SEND,
    WriteMarker: Phase.COMMIT,
    Commit: Phase.COMMIT,
}
_FAILURES = PrepareFailed | BlocksLost | SendFailed | MarkerFailed | CommitRefused | CommitUnknown


class Watch(CallWatch):
    """One call: times per effect, the time a transaction was open, what the batch holds.

    A transaction counts as open from the first effect that writes into it until it is known to
    have ended, by its commit or by a re-acquire; the store keeps it for `limit_s()`. Once it is
    open for longer than `alarm_after_s()`, `alarm` is called from a thread of its own.
    """

    def __init__(
        self,
        alarm_after_s: Callable[[], float] | None = None,
        alarm: Callable[[], None] | None = None,
        limit_s: Callable[[], float] | None = None,
    ) -> None:
        super().__init__()
        self._limit = limit_s
        self._failed = False
        self._effect_began_s = 0.0
        self._spent_s: dict[type, float] = defaultdict(float)
        self._alarm_after_s, self._alarm = alarm_after_s, alarm
        self._timer: threading.Timer | None = None
        self._last: LastTransaction | None = None
        self._owned = False
        self.summary = Summary()

    def begins(self, effect: Effect) -> None:
        """Take note that an effect is about to be performed."""
        self._effect_began_s = time.monotonic()
        self.phase = _PHASES.get(type(effect), Phase.ASK)
        if isinstance(effect, Prepare | Send) and self._failed:
            self._failed = False
            self.retried()
        if isinstance(effect, Send | WriteMarker) and self.opening is None:
            limit_s = self._limit() if self._limit is not None else None
            self.opens(limit_s, self._effect_began_s)
            self._set_alarm()
        self._owned = self._owned or isinstance(effect, Own)

    def ended(self, effect: Effect, event: Event) -> None:
        """Take note of what came of it."""
        now_s = time.monotonic()
        self._spent_s[type(effect)] += now_s - self._effect_began_s
        if isinstance(event, Committed | Reacquired | FencedOff):
            self.closes()
        self._failed = self._failed or isinstance(event, _FAILURES)
        if isinstance(event, LastTransactionSeen):
            self._last = event.last
        if isinstance(event, Prepared):
            self.summary = event.summary

    def closes(self) -> None:
        """Take note that no transaction is open any more; nothing alarms."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().closes()

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
