"""The driver of a query under test, in a process of its own: started, stopped, killed with -9."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twophase.verify.history import FaultInjected, HistoryFile, ProcessEnded, ProcessStarted
from twophase.verify.processes import descendants

if TYPE_CHECKING:
    from twophase.embedded.process import ProcessIdentity

PROGRAM: Final = ("-m", "twophase.spark.proof_query")
# By the environment, which no other user of the machine can read: a command line they can.
CONNECTION: Final = "TWOPHASE_PROOF_CONNECTION"
_LOG_TAIL_CHARS: Final = 3_000


class Driver:
    """One process after the other, of which at most one runs; `settings` are a `QuerySettings`.

    `program` is what Python runs with the settings as JSON: the query itself, or a test's own
    program around it. A process has a session of its own, so that a kill takes its JVM along.
    `connection` are Kafka's options for source and sink, which may hold secrets.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        history: HistoryFile,
        log: Path,
        *,
        program: tuple[str, ...] = PROGRAM,
        name: str = "driver",
        connection: Mapping[str, str] | None = None,
    ) -> None:
        self._settings, self._history, self._log = dict(settings), history, log
        self._program, self._name = program, name
        self._scratch = log.parent / "scratch"
        self._environment = os.environ | {
            CONNECTION: json.dumps(dict(connection or {})),
            # Whoever is killed cannot tidy up, so what it leaves behind is with the rest.
            "TMPDIR": str(self._scratch),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._left_behind: list[ProcessIdentity] = []
        self.kills = 0

    @property
    def sink(self) -> str:
        """The sink's name in the history."""
        return str(self._settings["sink"])

    @property
    def code(self) -> int | None:
        """The exit code of the process, None while it runs; negative for a signal."""
        return None if self._process is None else self._process.poll()

    @property
    def running(self) -> bool:
        """Whether the process is there, frozen or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The pid of Python while it runs; JVM and executors are below it."""
        return self._process.pid if self._process is not None and self.running else None

    def start(self, **more: Any) -> None:
        """Start the query, with more or other settings than before for this time."""
        self.end()
        self._scratch.mkdir(exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self._program, json.dumps(self._settings | more)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        pid = self._process.pid
        self._history.record(ProcessStarted(sink=self.sink, name=self._name, pid=pid))

    def wait(self, timeout_s: float) -> int:
        """Wait until the query ends by itself and return its exit code."""
        if self._process is None:
            return 0
        code = self._process.wait(timeout_s)
        self.end()
        return code

    def kill(self) -> None:
        """Kill it with -9: Python, JVM and workers at one instant."""
        self._fault("kill -9")
        self.kills += 1
        self.end()

    def kill_if(self, met: Callable[[], bool]) -> bool:
        """Stop it, and kill it with -9 where it stands if `met` says so; else let it go on."""
        self._signal(signal.SIGSTOP)
        if met():
            self.kill()
            return True
        self._signal(signal.SIGCONT)
        return False

    def kill_python(self) -> None:
        """Kill Python alone with -9; its JVM goes on until it notices, also beside a new start."""
        process = self._process
        if process is None:
            return
        self._fault("kill -9 of Python alone")
        self.kills += 1
        self._left_behind += descendants(process.pid)
        process.kill()
        self._ended(process, process.wait())

    def freeze(self) -> None:
        """Stop all of it where it is, as a machine does that hangs."""
        self._fault("SIGSTOP")
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._fault("SIGCONT")
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """End the process, if it runs, and wait until it is gone."""
        process = self._process
        if process is None:
            return
        self._signal(signal.SIGKILL)
        self._ended(process, process.wait())

    def close(self) -> None:
        """End the process, and whatever a Python that was killed alone has left behind."""
        self.end()
        for left in self._left_behind:
            left.send(signal.SIGKILL)
        self._left_behind.clear()

    def last_words(self) -> str:
        """Return the end of what all processes so far have said."""
        if not self._log.exists():
            return ""
        return self._log.read_text(errors="replace")[-_LOG_TAIL_CHARS:]

    def _fault(self, kind: str) -> None:
        self._history.record(FaultInjected(sink=self.sink, kind=kind, target=self._name))

    def _ended(self, process: subprocess.Popen[bytes], code: int) -> None:
        self._process = None
        ended = ProcessEnded(sink=self.sink, name=self._name, pid=process.pid, code=code)
        self._history.record(ended)

    def _signal(self, number: int) -> None:
        """Signal the whole tree: PySpark's workers have process groups of their own."""
        if self._process is None:
            return
        below = descendants(self._process.pid)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)
        for each in below:
            each.send(number)
