"""One seeded history: processes, a network that loses and repeats, a clock, a person, an oracle."""

import random
from collections import Counter

from simulation.broker import V1, V2, Broker
from simulation.driver import Driver, SinkError
from simulation.oracle import check_end, unfounded
from simulation.spark import PARTITIONS, TASKS, Query, RunEndedError

from twophase.commit.marker import Marker, Unreadable
from twophase.commit.recovery import Batch
from twophase.errors import Fenced, MarkerMissing, RecoveryError

FAULTY_STEPS = 260
HEALTHY_STEPS = 4_000
# A refusal that comes again and again is for good: only a person can go on.
REFUSALS_MAX = 3
TAMPERINGS = (None, None, None, "delete", "overwrite", "roll back", "lose offsets")


class Faults:
    """What a driver may run into that is not the network's doing; and what it may claim."""

    def __init__(self, history):
        self.history = history

    def happens(self, chance):
        history = self.history
        return not history.healthy and history.rng.random() < chance * history.harshness

    def interrupt(self):
        """The thread of the call is interrupted."""
        return self.happens(0.01)

    def rerun(self):
        """Which encode task runs again after half of its blocks were taken."""
        return self.history.rng.randrange(TASKS) if self.happens(0.15) else None

    def blocks_lost(self):
        """An executor is gone with its blocks."""
        return self.happens(0.04)

    def torn_sender(self):
        """A send task sends something else, is given up, and is started again."""
        return self.happens(0.05)

    def reacquired(self, before, now):
        """Nobody may take the id back from a newer owner."""
        if before != now:
            text = f"owner {before} took the id back from owner {now}"
            self.history.violations.append(text)

    def holds(self, driver, identity):
        """No two drivers may ever hold the same identity."""
        holder = self.history.holders.setdefault(identity, driver)
        if holder is not driver:
            self.history.violations.append(f"two drivers hold the identity {identity}")


class Process:
    """A process with its sink object, that runs the query again and again."""

    def __init__(self, history, query, driver):
        self.history, self.query, self.driver = history, query, driver
        self.answer = self.effect = None
        self.done = 0
        self.steps = self.main()

    def main(self):
        history = self.history
        for _ in range(6):
            run_id = history.new_run()
            try:
                yield from self.run(run_id)
            except RunEndedError:
                history.counts["run ended"] += 1
            except SinkError as raised:
                history.raised(self, raised.error)
                if isinstance(raised.error, RecoveryError):
                    return
            if not history.healthy and history.rng.random() < 0.4:
                return

    def run(self, run_id):
        """One run of the query: plan, call the sink, write commits/N."""
        query, history = self.query, self.history
        number = query.next_batch()
        begins = True
        while True:
            yield ("step",)
            if number not in query.offsets:
                query.plan(number, run_id, history.rng)
            elif not begins and query.offsets[number][2] != run_id:
                raise RunEndedError
            begins = False
            start, end, planner = query.offsets[number]
            offsets = query.hash_of(number)
            batch = Batch(query.owner, number, self.hashed(offsets), first_try=planner == run_id)
            yield from self.call(run_id, batch, range(start, end))
            query.finished.setdefault(number, set()).add(offsets)
            self.done += 1
            yield ("step",)
            if number in query.commits or history.happens(0.05):
                raise RunEndedError
            query.commits.add(number)
            number += 1

    def hashed(self, offsets):
        """The hash of offsets/N as the sink is told it."""
        return self.driver.offsets_hash(offsets)

    def call(self, run_id, batch, rows):
        """Call the sink; some users call again after an error."""
        for _ in range(3):
            try:
                return (yield from self.driver.batch(self.driver.run(run_id), batch, rows))
            except SinkError as raised:
                if isinstance(raised.error, RecoveryError | Fenced) or not self.history.happens(
                    0.3
                ):
                    raise
        raise RunEndedError


class History:
    """Everything that happens under one seed, and what is wrong with it."""

    def __init__(self, seed, driver=Driver):
        self.seed = seed
        self.rng = random.Random(seed)
        self.driver = driver
        self.harshness = self.rng.choice((0.3, 1, 2))
        self.version = self.rng.choice((V1, V2))
        self.broker = Broker(self.version, PARTITIONS, self.rng.choice((6, 1_000)))
        self.faults = Faults(self)
        self.queries = [Query("query")]
        self.tampering = self.rng.choice(TAMPERINGS)
        self.tampered = False
        self.tamper_at = self.rng.randrange(30, FAULTY_STEPS)
        # Most harm needs a moment: the next time that somebody is about to do this.
        self.tamper_on = self.rng.choice((None, "Own", "ReadMarker", "Commit", "Reacquire"))
        self.rival_chance = self.rng.choice((0.01, 0.04))
        self.outage_steps = 0
        self.stranger_at = self.rng.randrange(FAULTY_STEPS) if self.rng.random() < 0.15 else None
        self.holders = {}
        self.processes = []
        self.late = []
        self.trace = []
        self.violations = []
        self.counts = Counter()
        self.rivals = self.healthy = self.read_unfounded = False
        self.runs = 0

    def play(self):
        """Play the history to its end and return it."""
        for step in range(FAULTY_STEPS):
            if len(self.queries[0].refused) >= REFUSALS_MAX:
                break
            self.person(step)
            if not self.processes or (len(self.processes) < 2 and self.happens(self.rival_chance)):
                self.start(self.queries[0])
            self.tick()
            self.advance(self.rng.choice(self.processes))
        self.drain()
        check_end(self)
        return self

    def happens(self, chance):
        """Whether a fault of this chance happens now."""
        return self.faults.happens(chance)

    def new_run(self):
        """A run id that no run had before."""
        self.runs += 1
        return f"run-{self.runs}"

    def start(self, query):
        """Start a process, beside one that may still be alive."""
        self.rivals = self.rivals or bool(self.processes)
        self.processes.append(
            Process(self, query, self.driver(self.version, self.rng, self.faults))
        )
        self.trace.append(("start", query.owner))

    def tick(self):
        """What the network and the broker do by themselves."""
        if self.rng.random() < 0.6:
            self.broker.complete()
        if self.late and self.rng.random() < 0.15:
            self.deliver()
        self.outage_steps -= 1
        if self.happens(0.006):
            self.outage_steps = self.rng.choice((5, 15, 40))
        if self.happens(0.012):
            self.trace.append(("expire",))
            self.broker.expire()

    def deliver(self):
        """A late request arrives; nobody waits for its answer."""
        request = self.late.pop(self.rng.randrange(len(self.late)))
        self.trace.append(("late", request, self.execute(request)))

    def advance(self, process):
        """One step of one process: an answer reaches it, and it asks the next thing, or it dies."""
        if self.happens(0.006):
            self.kill(process)
            return
        try:
            request = process.steps.send(process.answer)
        except StopIteration:
            self.processes.remove(process)
            return
        if request[0] == "effect":
            process.effect = request[1]
        owner = self.broker.generation
        process.answer = self.perform(request)
        if process.effect == "Reacquire" and self.broker.generation > owner and self.version is V2:
            # Version 1 has to, where it cannot tell a rival from the broker's own timeout.
            self.faults.reacquired(process.driver.generation, owner)
        self.trace.append((request, process.answer))

    def perform(self, request):
        """Carry a request to the broker and its answer back, or not."""
        if request[0] in {"effect", "step"}:
            return None
        if self.healthy:
            return self.execute(request)
        fate = self.rng.random() / self.harshness
        if self.outage_steps > 0:
            fate %= 0.08
        if fate < 0.02:
            return None
        if fate < 0.04:
            self.late.append(request)
            return None
        answer = self.execute(request)
        if fate < 0.06:
            self.late.append(request)
        return None if 0.05 < fate < 0.08 else answer

    def execute(self, request):
        """Let the broker carry a request out."""
        name, *given = request
        if name == "look":
            return (self.broker.describe(),)
        if name == "end":
            identity, version, commit = given
            return self.broker.end(identity, version, commit=commit)
        if name == "fetch" and self.broker.marker is None and not self.broker.founded:
            self.read_unfounded = True
        return getattr(self.broker, name)(*given)

    def kill(self, process):
        """Kill -9 of a driver; its executors may go on for a while."""
        self.trace.append(("kill",))
        if self.rng.random() < 0.5:
            self.late += process.driver.sending
        process.steps.close()
        self.processes.remove(process)

    def person(self, step):
        """What people do: start another query under the same id, tamper, restore a checkpoint."""
        if step == self.stranger_at:
            self.queries.append(Query("stranger"))
            self.start(self.queries[1])
        if self.tampering is None or self.tampered or step < self.tamper_at:
            return
        if self.tamper_on and all(process.effect != self.tamper_on for process in self.processes):
            return
        self.tampered = True
        self.trace.append(("tamper", self.tampering))
        query = self.queries[0]
        if self.tampering == "delete":
            self.broker.forget_marker()
        elif self.tampering == "overwrite":
            self.broker.marker = Unreadable("a tool wrote here")
        elif query.offsets:
            while self.processes:
                self.kill(self.processes[0])
            last = max(query.offsets)
            first_lost = self.rng.randint(0, last) if self.tampering == "roll back" else last
            if self.tampering == "roll back" or last not in query.commits:
                for number in range(first_lost, last + 1):
                    del query.offsets[number]
                    query.commits.discard(number)

    def raised(self, process, error):
        """An error reached Spark: a refusal and a fence must have a cause."""
        self.counts[type(error).__name__] += 1
        self.trace.append(("raised", type(error).__name__))
        if isinstance(error, MarkerMissing) and not self.broker.founded:
            self.adopt(process.query)
        elif isinstance(error, RecoveryError):
            process.query.refused.append(error)
        if isinstance(error, Fenced) and process.driver.fences == self.broker.fences:
            self.violations.append(f"fenced although no newer owner exists: {error}")
        why = unfounded(self, error)
        if why is not None:
            self.violations.append(why)

    def adopt(self, query):
        """A person who knows that nothing was written yet says so."""
        self.trace.append(("adopt", query.owner))
        number = query.next_batch() - 1
        self.broker.marker = Marker(query.owner, number, "", 0, 0, 0, PARTITIONS)
        self.broker.founded = True

    def drain(self):
        """All die; a healthy process takes over while the last late requests arrive."""
        self.healthy = True
        while self.processes:
            self.kill(self.processes[0])
        query = self.queries[0]
        query.refused.clear()
        self.start(query)
        process = self.processes[0]
        for _ in range(HEALTHY_STEPS):
            self.tick()
            if not self.processes or (process.done >= 3 and not self.late and self.settled()):
                break
            self.advance(process)
        else:
            self.violations.append("the healthy process does not come to an end")
        while self.late:
            self.deliver()
        self.broker.complete()

    def settled(self):
        """Whether the process is between two batches."""
        return self.queries[0].next_batch() not in self.queries[0].offsets
