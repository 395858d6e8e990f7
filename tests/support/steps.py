"""Steps of a process, and what it does to itself at one of them: it dies, freezes, or asks."""

import os
import signal
import sys
import threading
from contextlib import contextmanager

REFUSED = 3


class Steps:
    """Counts and names steps, and does something at one of them.

    `at` is a step's number, or its name, of which the first counts.
    """

    def __init__(self, at, act, *, after):
        self.names = []
        self.at, self.act, self.after = at, act, after
        self._lock = threading.Lock()

    @contextmanager
    def step(self, name):
        """One thing that is done outside of the process."""
        with self._lock:
            first = name not in self.names
            self.names.append(name)
            here = self.at == len(self.names) or (first and self.at == name)
        if here and not self.after:
            self.act()
        yield
        if here and self.after:
            self.act()


class Calls:
    """Makes steps of what `MortalSink` and `MortalFolder` do."""

    def __init__(self, steps):
        self.steps = steps

    def step(self, act, *args):
        with self.steps.step(_name_of(act, args)):
            return act(*args)


def _name_of(act, args):
    if not args or not isinstance(args[0], str):
        return act.__name__
    # Epochs are seconds, prefixes are made up: another run has others.
    name = args[0]
    if name.startswith("lost-"):
        name = name.rpartition("-")[0]
    elif not name.startswith(("batch-", "done-")):
        name = name.split("-")[0].split(".")[0]
    return f"{act.__name__} {name}"


def die():
    """As `kill -9` has it."""
    os.kill(os.getpid(), signal.SIGKILL)


def freeze():
    """All of the process stands still, until somebody sends SIGCONT."""
    os.kill(os.getpid(), signal.SIGSTOP)


def ask():
    """Say that it is here, and go on once it is answered."""
    print("here", flush=True)
    assert sys.stdin.readline() == "go on\n"


ACTS = {"die": die, "freeze": freeze, "ask": ask}


def steps_of(arguments):
    """Return the steps that a driver's arguments ask for: at, after and act."""
    act = ACTS[arguments.get("act", "die")]
    return Steps(arguments.get("at"), act, after=arguments.get("after", False))
