"""Task scope without a store: doubles that say what they were asked for, and fail as told."""

import threading
from dataclasses import dataclass, field

from twophase.clock import Clock
from twophase.commit.recovery import Batch
from twophase.log.decision import Prepared
from twophase.log.decisions import DecisionLog
from twophase.task_scope import TaskScope
from twophase.two_phase import TwoPhaseCommitSink

PREFIX = "twophase.orders//"


class Moving(Clock):
    """Time that passes only by sleeping, and wakes who asked for it on its way."""

    def __init__(self):
        self.at_s = 1000.0
        self.alarms = []

    def now_s(self):
        return self.at_s

    def wall_ms(self):
        return 0

    def sleep(self, seconds):
        self.at_s += seconds
        for alarm in [each for each in self.alarms if each[0] <= self.at_s]:
            self.alarms.remove(alarm)
            alarm[1]()

    def after(self, seconds, act):
        alarm = (self.at_s + seconds, act)
        self.alarms.append(alarm)
        return lambda: alarm in self.alarms and self.alarms.remove(alarm)


class Recording(TwoPhaseCommitSink):
    """A store that says what it was asked for, and fails as it is told."""

    def __init__(self):
        self.calls = []
        self.failing = {}
        self.lock = threading.Lock()

    def begin(self, attempt):
        raise NotImplementedError

    write = prepare = abort = begin

    def commit(self, committable):
        with self.lock:
            self.calls.append(("commit", committable["task"]))
            errors = self.failing.get(committable["task"], [])
            if errors:
                raise errors.pop(0)

    def recover(self, stale):
        self.calls.append(("recover", stale.epoch, stale.batch))

    def confirm(self, committables):
        self.calls.append(("confirm", len(committables)))


@dataclass
class Tasks:
    """Tasks that have prepared what they are told, and how long they took, run by run."""

    clock: Clock = field(default_factory=Moving)
    tasks: tuple = (0, 1)
    takes_s: float = 0
    meanwhile: object = None
    executed: int = 0
    runs: int = 1

    def run(self, turn, anew):
        for number in range(self.runs):
            if number:
                anew()
            self.clock.sleep(self.takes_s)
        if self.meanwhile:
            self.meanwhile()
        return [Prepared(n, turn.attempt(n, 5).name, 10, {"task": n}) for n in self.tasks]

    def execute(self):
        self.executed += 1


def scope_over(folder, sink, clock, **more):
    """A driver of the sink."""
    return TaskScope(sink, DecisionLog(folder), PREFIX, clock=clock, **more)


def batch(number, *, first_try=True):
    """A batch of the query."""
    return Batch("query", number, f"h{number}", first_try=first_try)
