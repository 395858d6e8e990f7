"""Processes named so that a pid used again by another process is never signalled."""

import errno
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.02
# The pid is nobody's, or by now the number of a thread: older kernels say so by EINVAL.
_NO_PROCESS = (errno.ESRCH, errno.ENOENT, errno.EINVAL)


@dataclass(frozen=True)
class ProcessIdentity:
    """One process for ever: its pid together with the time at which it was started."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity | None":
        """Return the identity of a live process; None when there is none of that pid."""
        found = _start_and_state(pid)
        return cls(pid, found[0]) if found else None

    @property
    def alive(self) -> bool:
        """Whether this very process still runs; a zombie does not."""
        return self.state is not None

    @property
    def paused(self) -> bool:
        """Whether the process is held by SIGSTOP."""
        return self.state == "T"

    @property
    def state(self) -> str | None:
        """The letter that the system gives its state; None when it has ended."""
        found = _start_and_state(self.pid)
        return found[1] if found and found[0] == self.started else None

    def send(self, signal_number: int) -> bool:
        """Signal this very process; False when it has ended already."""
        if not hasattr(os, "pidfd_open"):
            if self.alive:
                os.kill(self.pid, signal_number)
                return True
            return False
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError as error:
            if error.errno in _NO_PROCESS:
                return False
            raise
        try:
            # The descriptor holds on to one process, so nothing can change after this look.
            if not self.alive:
                return False
            signal.pidfd_send_signal(descriptor, signal_number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    def wait(self, timeout_s: float) -> bool:
        """Wait until the process has ended; False when it still runs after timeout_s."""
        deadline = time.monotonic() + timeout_s
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True


def _start_and_state(pid: int) -> tuple[str, str] | None:
    if not Path("/proc/self/stat").exists():
        return _start_and_state_by_ps(pid)
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold spaces and parentheses itself: count from its end.
    fields = text.rpartition(")")[2].split()
    state, started = fields[0], fields[19]
    return None if state in "ZX" else (started, state)


def _start_and_state_by_ps(pid: int) -> tuple[str, str] | None:
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not state or state[0] == "Z" else (started.strip(), state[0])
