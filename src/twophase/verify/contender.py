"""One sink under test: its query in a process of its own, killed and started again."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from twophase.errors import StoreUnavailable
from twophase.kafka.wire import Wire
from twophase.verify.batches import planned
from twophase.verify.ends import end_offsets
from twophase.verify.history import FaultInjected, HistoryFile, ProcessEnded, ProcessStarted

_PROGRAM: Final = "twophase.spark.proof_query"
_POLL_S: Final = 0.01
_LOG_TAIL_CHARS: Final = 2_000


@dataclass(frozen=True, slots=True)
class Kills:
    """How often the driver is killed, and how far into the writing: seeded, so that it replays."""

    count: int
    seed: int = 0

    def depths(self, rows_per_batch: int) -> list[int]:
        """Return after how many more rows in the topic's log each kill comes."""
        rng = random.Random(self.seed)  # noqa: S311 - it picks moments, not secrets
        return [int(rng.uniform(0.2, 1.8) * rows_per_batch) for _ in range(self.count)]


class Contender:
    """A query that is started, killed and watched, until it has written all `rows` of its source.

    `arguments` are the fields of a `QuerySettings`.
    """

    def __init__(
        self, arguments: Mapping[str, Any], rows: int, wire: Wire, history: HistoryFile
    ) -> None:
        self._arguments, self._wire, self._history = dict(arguments), wire, history
        self._rows = rows
        self._checkpoint = Path(arguments["checkpoint"])
        self._log = self._checkpoint.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None
        self.kills = 0

    @property
    def name(self) -> str:
        """The sink's name in the history."""
        return str(self._arguments["sink"])

    def fight(self, kills: Kills, stopping: threading.Event, limit_s: float) -> None:
        """Run until all rows of the source are written, killed on the way; raise if it hangs."""
        deadline_s = time.monotonic() + limit_s
        try:
            for depth in kills.depths(self._arguments["rows_per_batch"]):
                self.start()
                self._wait_for_rows(depth, stopping, deadline_s)
                if stopping.is_set() or self.finished():
                    break
                self.kill()
            if self._process is None and not stopping.is_set():
                self.start()
            while not stopping.is_set() and not self.finished():
                self._check(deadline_s)
        finally:
            self.end()

    def start(self) -> None:
        """Start the query's process, in a session of its own so that a kill takes its JVM along."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _PROGRAM, json.dumps(self._arguments)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._history.record(ProcessStarted(sink=self.name, name="driver", pid=self._process.pid))

    def kill(self) -> None:
        """Kill the driver with -9: Python, JVM and workers at one instant."""
        self._history.record(FaultInjected(sink=self.name, kind="kill -9", target="driver"))
        self.kills += 1
        self.end()

    def end(self) -> None:
        """End the process, if it runs, and wait until it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        self._history.record(
            ProcessEnded(sink=self.name, name="driver", pid=process.pid, code=code)
        )

    def finished(self) -> bool:
        """Whether the source has all rows, and Spark has noted the batch as done that ends it."""
        commits = self._checkpoint / "commits"
        if not commits.is_dir():
            return False
        done = max((int(p.name) for p in commits.iterdir() if p.name.isdigit()), default=-1)
        if done < 0:
            return False
        source = self._arguments["source"]
        ends = end_offsets(self._wire, source)
        return sum(ends.values()) >= self._rows and planned(self._checkpoint, source)[done] == ends

    def _wait_for_rows(self, depth: int, stopping: threading.Event, deadline_s: float) -> None:
        """Wait until so many more rows lie in the target's log, committed or not."""
        target = self._arguments["target"]
        begin = self._length(target)
        while self._length(target) < begin + depth:
            if stopping.is_set() or self.finished():
                return
            self._check(deadline_s)

    def _length(self, topic: str) -> int:
        return sum(end_offsets(self._wire, topic).values())

    def _check(self, deadline_s: float) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            raise StoreUnavailable(
                f"the query of {self.name} ended by itself: {self._last_words()}"
            )
        if time.monotonic() > deadline_s:
            raise StoreUnavailable(
                f"the query of {self.name} did not write all rows in time: {self._last_words()}"
            )
        time.sleep(_POLL_S)

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-_LOG_TAIL_CHARS:]
