"""Drivers in task scope on a simulated file system and store, killed, frozen and overtaken.

The loop, the decision log and the attempts are the package's own code. Each driver runs in a
greenlet and stands still before and after every call that reaches outside, where the history may
go on with another driver, kill this one, start one more, or let an attempt go on that Spark has
long given up. A forgetful store drops what is prepared, as by a time limit, and later does not even
know that it did.
"""

import json
import random
from collections import Counter
from contextlib import suppress

import pyarrow as pa
from greenlet import getcurrent, greenlet

from twophase.attempt import run_attempt
from twophase.clock import Clock
from twophase.commit.recovery import Batch
from twophase.errors import (
    CommitOutcomeUnknown,
    CommittableLost,
    InvalidState,
    RecoveryError,
    StoreUnavailable,
    TwoPhaseError,
)
from twophase.log.decisions import DecisionLog
from twophase.task_scope import OnLost, TaskScope
from twophase.testing.mortal import InTurn
from twophase.two_phase import TwoPhaseCommitSink

PREFIX = "twophase.sim//"
BATCHES, TASKS = 6, 2
STEPS_MAX = 12_000


class Killed(BaseException):
    """Kill -9."""


class RunEndedError(Exception):
    """Spark ends the run: another has planned or finished the batch."""


class SimulatedClock(Clock):
    """Nobody waits."""

    def now_s(self):
        return 0.0

    def wall_ms(self):
        return 0

    def sleep(self, seconds):
        pass


class SimulatedFolder:
    """Files in memory; an answer may be lost, with or without the deed."""

    root = "memory"

    def __init__(self, process):
        self.process, self.files = process, process.world.files

    def names(self):
        return self.process.outside(lambda: list(self.files))

    def read(self, name):
        return self.process.outside(lambda: self.files.get(name))

    def create(self, name, data):
        return self.process.outside(lambda: self.files.setdefault(name, data) is data)

    def delete(self, name):
        self.process.outside(lambda: self.files.pop(name, None))


class SimulatedSink(TwoPhaseCommitSink):
    """A store in memory: each transaction is begun, prepared, committed or gone."""

    def __init__(self, process):
        self.process, self.states = process, process.world.states

    def begin(self, attempt):
        self.process.outside(lambda: self.states.setdefault(attempt.name, "begun"))
        return attempt.name

    def write(self, transaction, rows):
        pass

    def prepare(self, transaction):
        self.process.outside(lambda: self.process.world.prepare(transaction))
        return {"name": transaction}

    def commit(self, committable):
        self.process.outside(lambda: self.process.world.commit(committable["name"]))

    def abort(self, transaction):
        self.process.outside(lambda: self.process.world.end(transaction))

    def recover(self, stale):
        self.process.outside(
            lambda: [self.process.world.end(name) for name in self.states if name in stale]
        )


class SimulatedByDriver(SimulatedSink):
    """A store whose names say the driver and not the batch."""

    def recover(self, stale):
        def ended(name):
            return int(name.removeprefix(PREFIX).split("/")[0]) in stale.ended

        self.process.outside(
            lambda: [self.process.world.end(name) for name in self.states if ended(name)]
        )


class SimulatedForgetful(SimulatedSink):
    """A store that drops what is prepared, which `confirm` sees, and forgets what it has ended."""

    def confirm(self, committables):
        self.process.outside(lambda: self.process.world.confirm(committables))


class Tasks:
    """Tasks with attempts of which Spark takes one, and forgets the others wherever they are."""

    def __init__(self, process, number):
        self.process, self.number = process, number

    def run(self, turn, _anew):
        found = []
        world = self.process.world
        rows = pa.RecordBatch.from_pydict({"id": [1]})
        for task in range(TASKS):
            for _ in range(world.rng.choice([0, 0, 0, 1, 2])):
                loser = turn.attempt(task, world.next_number())
                self.process.outside(lambda name=loser.name: world.states.setdefault(name, "begun"))
                world.zombies.append(loser.name)
            at = turn.attempt(task, world.next_number())
            found.append(run_attempt(self.process.sink, at, [rows]))
        if self.process.happens(0.05):
            raise ValueError("the user's own computation fails")
        return found

    def execute(self):
        pass


class Process:
    """A driver's process, which runs the query again and again."""

    def __init__(self, world, parts):
        self.world, self.dead = world, False
        self.sink = parts["sink"](self)
        log = parts["log"](SimulatedFolder(self))
        # Some users want to be stopped by a loss, and change their mind at a later start.
        strict = not world.forgetful or self.happens(0.3)
        self.on_lost = OnLost.FAIL if strict else OnLost.RECORD
        given = {"on_lost": self.on_lost, "clock": SimulatedClock()}
        self.scope = parts["scope"](self.sink, log, PREFIX, pool=InTurn, **given)
        self.history_side, self.greenlet = getcurrent(), greenlet(self.main)

    def happens(self, chance):
        return not self.world.healthy and self.world.rng.random() < chance

    def pause(self):
        if self.dead:
            raise Killed
        self.history_side.switch()
        if self.dead:
            raise Killed

    def outside(self, act):
        self.pause()
        if self.happens(0.02):
            raise StoreUnavailable("no answer, and nothing done")
        result = act()
        self.pause()
        if self.happens(0.02):
            raise StoreUnavailable("done, and no answer")
        return result

    def kill(self):
        self.dead = True
        with suppress(Killed):
            self.greenlet.throw(Killed)

    def main(self):
        for _ in range(20):
            try:
                self.run(self.world.next_number())
            except RunEndedError:
                self.world.counts["run ended"] += 1
            except CommittableLost as error:
                self.world.counts[type(error).__name__] += 1
                if not self.world.forgetful or self.on_lost is OnLost.RECORD:
                    self.world.violations.append(str(error))
                    return
            except (TwoPhaseError, ValueError) as error:
                self.world.counts[type(error).__name__] += 1
                if isinstance(error, RecoveryError) and self.world.alone:
                    self.world.violations.append(str(error))
                    return
            else:
                return

    def run(self, run_id):
        world = self.world
        number = world.next_batch()
        begins = True
        while number < world.limit:
            self.pause()
            planner = world.offsets.setdefault(number, run_id)
            if planner != run_id and not begins:
                raise RunEndedError
            begins = False
            batch = Batch("query", number, f"h{number}", first_try=planner == run_id)
            self.call(run_id, batch)
            self.pause()
            if number in world.finished:
                raise RunEndedError
            world.finished.add(number)
            number += 1

    def call(self, run_id, batch):
        for last in (False, False, True):
            try:
                return self.scope.write(str(run_id), batch, Tasks(self, batch.number))
            except (StoreUnavailable, ValueError):
                # Some users call again after an error.
                if last or not self.happens(0.5):
                    raise
        raise RunEndedError


class World:
    """One history: everything in it follows from the seed."""

    def __init__(self, seed, parts=None):
        self.rng = random.Random(seed)
        given = {"scope": TaskScope, "log": DecisionLog, "sink": SimulatedSink}
        self.parts = given | (parts or {})
        self.forgetful = issubclass(self.parts["sink"], SimulatedForgetful)
        self.files, self.states, self.zombies = {}, {}, []
        self.forgotten = set()
        self.offsets, self.finished = {}, set()
        self.healthy, self.alone, self.number = False, False, 0
        self.violations, self.counts, self.trace = [], Counter(), []
        self.processes, self.frozen, self.limit = [], set(), BATCHES

    def next_number(self):
        self.number += 1
        return self.number

    def next_batch(self):
        """As Spark does: the last that was planned, unless it is finished."""
        latest = max(self.offsets, default=-1)
        return latest + 1 if latest in self.finished or latest < 0 else latest

    def prepare(self, name):
        if self.states[name] != "begun":
            raise StoreUnavailable("the transaction is gone")
        self.states[name] = "prepared"

    def confirm(self, committables):
        gone = [each for each in committables if self.states[each["name"]] != "prepared"]
        if gone:
            raise InvalidState(f"{gone} are not prepared any more")

    def commit(self, name):
        if name in self.forgotten:
            raise CommitOutcomeUnknown(f"{name} is forgotten")
        if self.states[name] not in {"prepared", "committed"}:
            raise CommittableLost(f"{name} is {self.states[name]}")
        self.states[name] = "committed"

    def end(self, name):
        if self.states.get(name) in {"begun", "prepared"}:
            self.states[name] = "gone"

    def age(self):
        """Drop one of what is prepared, or forget one of what nobody should ask for any more."""
        names = [name for name, state in self.states.items() if state == "prepared"]
        names += sorted((self.committed() & self.done()) | self.recorded())
        # Rarely has a driver died between a record and the end of its batch: not to be missed.
        names = sorted(self.recorded() - self.done()) or names
        names = [name for name in names if name not in self.forgotten]
        if not names:
            return
        name = self.rng.choice(names)
        if self.states[name] == "prepared":
            self.states[name] = "dropped"
        else:
            self.forgotten.add(name)
            self.counts["forgotten", self.states[name]] += 1

    def committed(self):
        return {name for name, state in self.states.items() if state == "committed"}

    def done(self):
        """The transactions of decisions that are noted as done."""
        decided = (self.content(f"batch-{n[5:]}") for n in self.files if n.startswith("done-"))
        return {each["name"] for found in decided for each in (found or {}).get("prepared") or ()}

    def lost(self):
        """The transactions that are recorded as lost."""
        return {self.content(name)["name"] for name in self.files if name.startswith("lost-")}

    def recorded(self):
        """The transactions of which a record of a loss says what became of them."""
        found = set()
        for name in [each for each in self.files if each.startswith("lost-")]:
            record = self.content(name)
            batch = self.content(f"batch-{record['batch']:012d}-{record['slot']:04d}") or {}
            known = {*record["committed"], record["task"]}
            found |= {each["name"] for each in batch.get("prepared") or () if each["task"] in known}
        return found

    def content(self, name):
        """What a file of the log holds, if it is there."""
        data = self.files.get(name)
        return None if data is None else json.loads(data.split(b"\n")[1])

    def play(self):
        """Disturb for a while, then let one driver finish, and judge."""
        for _ in range(self.rng.randrange(50, 800)):
            self.disturb()
        self.healthy = True
        for frozen in self.processes:
            # Of the old drivers some die, and some wake up among the last steps.
            if self.rng.random() < 0.5:
                frozen.kill()
        self.processes = [each for each in self.processes if not each.greenlet.dead]
        last = Process(self, self.parts)
        for step in range(STEPS_MAX):
            if last.greenlet.dead and all(each.greenlet.dead for each in self.processes):
                break
            running = [each for each in [*self.processes, last] if not each.greenlet.dead]
            self.go_on(self.rng.choice(running))
            if step > STEPS_MAX // 2:
                self.violations.append("the drivers do not come to an end")
                break
        self.alone = True
        for _ in range(3):
            # A driver that was overtaken has stopped; the user starts the query again.
            # Each time with one batch more: a start alone does not call the sink.
            self.limit += 1
            again = Process(self, self.parts)
            while not again.greenlet.dead:
                self.go_on(again)
        self.judge()
        return self

    def disturb(self):
        self.processes = [each for each in self.processes if not each.greenlet.dead]
        alive = [each for each in self.processes if each not in self.frozen]
        if self.rng.random() < 0.01:
            self.frozen ^= {self.rng.choice(self.processes)} if self.processes else set()
        elif not alive or (len(alive) < 4 and self.rng.random() < 0.04):
            self.processes.append(Process(self, self.parts))
        elif self.rng.random() < 0.01:
            self.rng.choice(alive).kill()
            self.counts["killed"] += 1
        elif self.forgetful and self.rng.random() < 0.1:
            self.age()
        elif self.zombies and self.rng.random() < 0.05:
            name = self.rng.choice(self.zombies)
            if self.states[name] == "begun":
                self.states[name] = "prepared"
                self.counts["zombie prepared"] += 1
        else:
            self.go_on(self.rng.choice(alive))

    def go_on(self, process):
        process.greenlet.switch()
        self.trace.append(len(self.files) * 1000 + len(self.states))

    def judge(self):
        """Each task of each batch is in the store once, or recorded as what the store has dropped.

        And nothing of the past is open.
        """
        if self.finished != set(range(self.limit)):
            self.violations.append(f"only {sorted(self.finished)} are finished")
        rows, lost = Counter(), self.lost()
        if wrong := lost & self.committed():
            self.violations.append(f"recorded as lost, and committed: {sorted(wrong)}")
        for name, state in self.states.items():
            _, batch, task, _ = name.removeprefix(PREFIX).split("/")
            if state == "committed":
                rows[int(batch), int(task)] += 1
            elif name in lost and state == "dropped":
                rows[int(batch), int(task)] += 1
                self.counts["lost"] += 1
        for place in ((b, t) for b in range(self.limit) for t in range(TASKS)):
            if rows[place] != 1:
                self.violations.append(f"batch and task {place} are there {rows[place]} times")
        left = [name for name, state in self.states.items() if state in {"begun", "prepared"}]
        if left:
            self.violations.append(f"left open: {left}")
        self.counts["batches"] += len(self.finished)
