"""A small process between us and a broker's JVM, so that no JVM outlives whoever started it.

Run by its path, not with -m: it imports the standard library only and starts in a blink.
Arguments: the parent's pid, the file for the JVM's output, a folder to delete when the parent dies
(or ""), then the command. The first line on stdout is the JVM's pid. After SIGUSR1 the parent may
die: the cluster was handed over to whoever reads the state file.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

_POLL_S = 0.2
_GRACE_S = 2.0
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Start the JVM, report its pid, and stay until it or the parent has ended."""
    parent, console, discard, *command = arguments
    released: list[bool] = []
    # Our parent decides when the JVM ends; a signal for its terminal or group is not for us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGUSR1, lambda *_: released.append(True))
    jvm = _start(command, console)
    try:
        _report(jvm.pid)
        return _watch(jvm, int(parent), released)
    finally:
        _end(jvm)
        if discard and not released and os.getppid() != int(parent):
            _delete(Path(discard))


def _watch(jvm: subprocess.Popen[bytes], parent: int, released: list[bool]) -> int:
    # Bounded by the life of the JVM or the parent, which is the promise of this module.
    while released or os.getppid() == parent:
        try:
            return jvm.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            continue
    return 1


def _start(command: list[str], console: str) -> subprocess.Popen[bytes]:
    with Path(console).open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=_bound_to(os.getpid()),  # noqa: PLW1509 (this process has one thread only)
        )


def _bound_to(guardian: int) -> Callable[[], None] | None:
    """Return what makes the kernel kill the JVM when this process is killed with -9 (Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guardian:
            os._exit(1)

    return ask


def _report(pid: int) -> None:
    sys.stdout.write(f"{pid}\n")
    sys.stdout.flush()


def _end(jvm: subprocess.Popen[bytes]) -> None:
    if jvm.poll() is not None:
        return
    jvm.send_signal(signal.SIGTERM)
    jvm.send_signal(signal.SIGCONT)
    try:
        jvm.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _delete(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    deadline = time.monotonic() + _GRACE_S
    # The last node's guardian takes the cluster's folder along, once it is empty.
    while time.monotonic() < deadline and folder.parent.exists():
        try:
            folder.parent.rmdir()
        except OSError:
            time.sleep(_POLL_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
