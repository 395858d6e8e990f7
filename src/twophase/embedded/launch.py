"""Starting a JVM under a guardian, which ends it when this process ends."""

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twophase.embedded import guardian
from twophase.embedded.process import ProcessIdentity
from twophase.errors import SetupError

_REPORT_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Launched:
    """A JVM that was started, and its guardian."""

    jvm: ProcessIdentity
    guardian: subprocess.Popen[bytes]

    def release(self) -> None:
        """Let both outlive this process."""
        self.guardian.send_signal(signal.SIGUSR1)
        # Nobody here will wait for it any more, and Popen would warn of that.
        self.guardian.returncode = 0


def launch(command: Sequence[str], console: Path, discard: Path | None) -> Launched:
    """Start a JVM that ends when this process ends, however it ends."""
    keeper = _guardian(command, console, discard)
    return Launched(_reported(keeper, console), keeper)


def _guardian(
    command: Sequence[str], console: Path, discard: Path | None
) -> subprocess.Popen[bytes]:
    arguments = [str(os.getpid()), str(console), str(discard or ""), *command]
    return subprocess.Popen(
        [sys.executable, "-I", guardian.__file__, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C in the terminal is for us to act on, not for the brokers.
        start_new_session=True,
    )


def _reported(keeper: subprocess.Popen[bytes], console: Path) -> ProcessIdentity:
    if keeper.stdout is None:
        raise SetupError(f"the broker's JVM could not be started; see {console}")
    with keeper.stdout as pipe, selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        line = pipe.readline() if selector.select(_REPORT_TIMEOUT_S) else b""
        jvm = ProcessIdentity.of(int(line)) if line.strip().isdigit() else None
    if jvm is None:
        keeper.terminate()
        keeper.wait(_REPORT_TIMEOUT_S)
        raise SetupError(f"the broker's JVM could not be started; see {console}")
    return jvm
