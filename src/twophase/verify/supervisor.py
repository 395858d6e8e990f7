"""A supervisor of a trial's query: starts it again whenever it ends, as an init system would."""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from twophase.errors import StoreUnavailable
from twophase.verify.trial import Trial

_POLL_S: Final = 0.05
_OURS: Final = re.compile(r"(?P<name>TWOPHASE_[A-Z_]+)(?:: .*)?")
_RAISED: Final = re.compile(
    r"^(?:[\w.]+\.)?(?P<name>\w+(?:Error|Exception)|PipelineWrong)\b.*", re.MULTILINE
)
_UNNAMED: Final = "unnamed"
_SAID_CHARS: Final = 600


class Supervisor:
    """Keeps one query running while something else happens to it.

    `settings` returns more settings for each start, `told` is called at each look. `exits` counts
    why the query ended by itself, `last_said` is the last such reason in its own words;
    `longest_stall_s` is the longest time in which Spark noted no batch as done.
    """

    def __init__(
        self,
        trial: Trial,
        *,
        settings: Callable[[], Mapping[str, Any]] = dict,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self.trial = trial
        self.starts = 0
        self.exits: Counter[str] = Counter()
        self.last_said = ""
        self.longest_stall_s = 0.0
        self._settings, self._told = settings, told
        self._log = trial.folder / "driver.log"
        self._said_before = 0
        self._done, self._done_at_s = trial.last_done(), time.monotonic()

    def tend(self) -> None:
        """Start the query if it does not run, and note how far it is."""
        driver = self.trial.driver
        if not driver.running:
            if driver.code is not None:
                self.exits[self._why()] += 1
            self._said_before = self._log.stat().st_size if self._log.exists() else 0
            driver.start(**self._settings())
            self.starts += 1
        done, now_s = self.trial.last_done(), time.monotonic()
        self.longest_stall_s = max(self.longest_stall_s, now_s - self._done_at_s)
        if done > self._done:
            self._done, self._done_at_s = done, now_s
        self._told()

    def sleep(self, seconds: float) -> None:
        """Tend it for some time."""
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0:
            self.tend()
            time.sleep(min(_POLL_S, left_s))

    def wait_until(self, met: Callable[[], bool], timeout_s: float) -> None:
        """Tend it until then; raise with its last words if that takes too long.

        A store that does not answer means not yet.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            with suppress(StoreUnavailable):
                if met():
                    return
            if time.monotonic() > deadline_s:
                late = StoreUnavailable(
                    f"the query of {self.trial.sink} did not get there in {timeout_s:.0f} s; it "
                    f"was started {self.starts} times and ended by itself: {dict(self.exits)}"
                    f"{self.why_at_last()}"
                )
                late.add_note(f"its last words: {self.trial.driver.last_words()}")
                raise late
            self.sleep(_POLL_S)

    def wait_for_batches(self, count: int, timeout_s: float) -> None:
        """Tend it until so many more batches are done."""
        due = self.trial.last_done() + count
        self.wait_until(lambda: self.trial.last_done() >= due, timeout_s)

    def why_at_last(self) -> str:
        """Return the end of a sentence: why the query last ended by itself, if it did."""
        return f"; at last: {self.last_said}" if self.last_said else ""

    def _why(self) -> str:
        """Return the error that ended the last run: our own code, else the last exception's."""
        with self._log.open("rb") as log:
            log.seek(self._said_before)
            text = log.read().decode(errors="replace")
        name, self.last_said = reason_in(text)
        return name


def reason_in(text: str) -> tuple[str, str]:
    """Return the error that a process has ended with, by its name and in its own words."""
    found = list(_OURS.finditer(text)) or list(_RAISED.finditer(text))
    return (found[-1]["name"], found[-1][0][:_SAID_CHARS]) if found else (_UNNAMED, "")
