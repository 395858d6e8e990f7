"""A command that is watched from outside: every process that it has, and every file it writes."""

import os
import subprocess
import threading
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from twophase.embedded.process import ProcessIdentity
from twophase.verify.processes import descendants

LOOK_EVERY_S = 0.1
BROKER = b"kafka.Kafka"
EXECUTOR = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Watched:
    """A command and all below it: `commands` are the command lines that each process has had.

    With `kept` every file below TMPDIR has a second name there, so that what is deleted in the end
    can still be read.
    """

    def __init__(self, command, *, kept=None, **environment):
        self.commands = defaultdict(set)
        self._kept, self._known = kept, set()
        self._written = Path(environment["TMPDIR"]) if kept is not None else None
        self._over = threading.Event()
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        self._identity = ProcessIdentity.of(self.process.pid)
        self._thread = threading.Thread(target=self._look_all_along)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self._over.set()
        self._thread.join()
        for process in self.left():
            process.send(9)

    def end(self, seconds=280):
        """Wait until the command has ended; return its exit code, stdout and stderr."""
        out, told = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, told

    def left(self):
        """Which of the processes still live."""
        return [process for process in list(self.commands) if process.alive]

    def java(self, main):
        """Return the JVMs whose main class this was, living and dead."""
        return {
            process
            for process, commands in list(self.commands.items())
            for words in (command.split(b"\0") for command in list(commands))
            if words[0].endswith(b"java") and main in words
        }

    def _look_all_along(self):
        while not self._over.wait(LOOK_EVERY_S):
            for process in (self._identity, *descendants(self._identity.pid)):
                # It may have ended since.
                with suppress(OSError):
                    seen = Path(f"/proc/{process.pid}/cmdline").read_bytes()
                    if seen and process.alive:
                        self.commands[process].add(seen)
            if self._kept is not None:
                self._keep()

    def _keep(self):
        for folder, _, names in os.walk(self._written):
            for path in (Path(folder) / name for name in names):
                with suppress(OSError):
                    node = path.stat(follow_symlinks=False).st_ino
                    if node not in self._known:
                        into = self._kept / path.relative_to(self._written)
                        into.parent.mkdir(parents=True, exist_ok=True)
                        # Another file of the same name may have been there before.
                        os.link(path, into.with_name(f"{into.name}~{node}"))
                        self._known.add(node)
