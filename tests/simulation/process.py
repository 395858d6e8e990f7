"""A simulated process: the package's own sink code, standing still at every request.

It runs in a greenlet, so that code which knows nothing of a simulation can be stopped, killed or
overtaken by a rival between any request and its answer.
"""

from contextlib import suppress

from greenlet import getcurrent, greenlet
from simulation.spark import RunEndedError
from simulation.wire import SimulatedWire

from twophase.commit.events import BatchArrived
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.errors import Fenced, RecoveryError, TwoPhaseError
from twophase.sink import write_batch

STEP = ("step",)


class Killed(BaseException):
    """Kill -9: the process does nothing any more."""


class Interruption(BaseException):
    """The thread of the call was interrupted."""


class Noted:
    """A machine that lets the history know, and go on, before each effect."""

    def __init__(self, machine, process):
        self.machine, self.process = machine, process

    def handle(self, event):
        if isinstance(event, BatchArrived):
            process = self.process
            process.warned = process.history.is_foreign(process, process.history.broker.marker)
        effect = self.machine.handle(event)
        self.process.effect = type(effect).__name__
        self.process.ask(("effect", self.process.effect))
        return effect


class Process:
    """A process with its sink object, that runs the query again and again."""

    def __init__(self, history, query, parts):
        self.history, self.query, self.parts = history, query, parts
        self.timeout_ms = history.timeout_ms
        self.wire = SimulatedWire(self, history.version)
        self.machine = Noted(parts.machine(), self)
        self.store = parts.store(self.wire, SinkName("sink"), "topic")
        self.dead = self.unread = self.doomed = self.warned = False
        self.answer = self.effect = None
        self.held, self.number = (-1, -1), 0
        self.done = self.generation = self.fences = self.stalled_steps = 0
        self.sending = []
        self.history_side, self.greenlet = getcurrent(), greenlet(self.main)

    def go_on(self):
        """Hand over the last answer; return the next call, or None at the end."""
        call = self.greenlet.switch(self.answer)
        return None if self.greenlet.dead else call

    def ask(self, call):
        """Stand still until the history goes on with the answer."""
        if self.dead:
            raise Killed
        answer = self.history_side.switch(call)
        if answer is Interruption:
            raise Interruption
        return answer

    def step(self):
        self.ask(STEP)

    def kill(self):
        """End at once: what the code does about its death reaches nobody."""
        self.dead = True
        with suppress(Killed):
            self.greenlet.throw(Killed)
        if not self.greenlet.dead:
            self.history.violations.append("a killed process goes on")

    def main(self, _nothing):
        history = self.history
        for _ in range(6):
            try:
                self.run(history.new_run())
            except RunEndedError:
                history.counts["run ended"] += 1
            except Interruption:
                history.counts["interrupted"] += 1
            except TwoPhaseError as error:
                if not history.raised(self, error):
                    return
            if not history.healthy and history.rng.random() < 0.4:
                return

    def run(self, run_id):
        """One run of the query: plan, call the sink, write commits/N."""
        query, history = self.query, self.history
        number = query.next_batch()
        begins, self.unread = True, False
        while True:
            self.step()
            if number not in query.offsets:
                query.plan(number, run_id, history.rng)
                self.unread = begins
            elif not begins and query.offsets[number][2] != run_id:
                raise RunEndedError
            begins, self.number = False, number
            start, end, planner = query.offsets[number]
            offsets = query.hash_of(number)
            hashed = self.parts.offsets_hash(offsets)
            batch = Batch(query.owner, number, hashed, first_try=planner == run_id)
            self.call(self.parts.run_id(run_id), batch, range(start, end))
            query.finished.setdefault(number, set()).add(offsets)
            self.done += 1
            self.step()
            if number in query.commits or history.happens(0.05):
                raise RunEndedError
            query.commits.add(number)
            number += 1

    def call(self, run_id, batch, rows):
        """Call the sink; some users call again after an error."""
        for _ in range(3):
            engine = self.parts.engine(self, batch, rows)
            try:
                return write_batch(self.machine, run_id, batch, self.store, engine)
            except (TwoPhaseError, Interruption) as error:
                final = isinstance(error, RecoveryError | Fenced)
                if final or not self.history.happens(0.3):
                    raise
        raise RunEndedError
