"""One seeded history: processes, a network that loses and repeats, a clock, a person, an oracle."""

import random
from collections import Counter

from simulation.broker import OK, V1, V2, Broker
from simulation.oracle import check_end, unfounded
from simulation.parts import Shipped
from simulation.process import Interruption, Process
from simulation.spark import PARTITIONS, TASKS, Query
from simulation.wire import MOVED

from twophase.commit.marker import Marker, read_marker
from twophase.errors import Fenced, MarkerMissing, ProtocolViolation, RecoveryError

FAULTY_STEPS = 300
HEALTHY_STEPS = 4_000
# A refusal that comes again and again is for good: only a person can go on.
REFUSALS_MAX = 3
TAMPERINGS = (None, None, None, "delete", "overwrite", "roll back", "lose offsets")
MOMENTS = (None, "PeekMarker", "Own", "ReadMarker", "Commit", "Reacquire")
# What the network does not touch.
SILENT = ("effect", "step")


class Faults:
    """What a process may run into that is not the network's doing; and what it may claim."""

    def __init__(self, history):
        self.history = history

    def happens(self, chance):
        history = self.history
        return not history.healthy and history.rng.random() < chance * history.harshness

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

    def holds(self, process, identity):
        """No two processes may ever hold the same identity."""
        holder = self.history.holders.setdefault(identity, process)
        if holder is not process:
            self.history.violations.append(f"two processes hold the identity {identity}")


class History:
    """Everything that happens under one seed, and what is wrong with it."""

    def __init__(self, seed, parts=Shipped):
        self.seed = seed
        self.rng = random.Random(seed)
        self.parts = parts
        self.harshness = self.rng.choice((0.3, 1, 2))
        self.version = self.rng.choice((V1, V2))
        # Few enough to run out; but not between one look and the taking after it, as 32,767 do not.
        self.broker = Broker(self.version, PARTITIONS, self.rng.choice((16, 1_000)))
        self.timeout_ms = self.rng.choice((60_000, 45_678))
        self.faults = Faults(self)
        self.queries = [Query("query")]
        self.tampering = self.rng.choice(TAMPERINGS)
        self.tampered = False
        self.tamper_at = self.rng.randrange(30, FAULTY_STEPS)
        # Most harm needs a moment: the next time that somebody is about to do this.
        self.tamper_on = self.rng.choice(MOMENTS)
        self.rival_chance = self.rng.choice((0.01, 0.04))
        self.stall_chance = self.rng.choice((0, 0.01, 0.03))
        # Several start a new sink at once, hang before they take it, and somebody deletes a marker
        # that is just about to be needed.
        self.crowd = self.rng.choice((2, 3)) if self.rng.random() < 0.25 else 1
        if self.crowd > 1:
            self.tampering = self.rng.choice((None, "delete", "delete", "delete"))
            self.tamper_at, self.tamper_on = 0, self.rng.choice(("Own", "ReadMarker"))
        self.outage_steps = 0
        self.stranger_at = self.rng.randrange(FAULTY_STEPS) if self.rng.random() < 0.15 else None
        # At any time, or while the marker is in a transaction that is about to be committed.
        self.stranger_on = self.rng.choice((None, "Commit"))
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
        for _ in range(self.crowd):
            self.start(self.queries[0])
        for step in range(FAULTY_STEPS):
            if len(self.queries[0].refused) >= REFUSALS_MAX:
                break
            self.person(step)
            if not self.processes or (
                len(self.processes) < self.crowd + 1 and self.happens(self.rival_chance)
            ):
                self.start(self.queries[0])
            self.tick()
            process = self.rng.choice(self.processes)
            if not self.stalls(process):
                self.advance(process)
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
        self.processes.append(Process(self, query, self.parts))
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
        call = self.late.pop(self.rng.randrange(len(self.late)))
        self.trace.append(("late", call, self.execute(call)))

    def stalls(self, process):
        """Whether a process hangs for a while, and others overtake it."""
        looked = process.effect in {"PeekMarker", "DescribeLast", "Own"} and self.crowd > 1
        if process.stalled_steps == 0 and self.happens(0.1 if looked else self.stall_chance):
            process.stalled_steps = self.rng.choice((10, 20, 40))
        if process.stalled_steps == 0:
            return False
        process.stalled_steps -= 1
        return True

    def advance(self, process):
        """One step of one process: an answer reaches it, and it asks the next thing, or it dies."""
        if process.doomed or self.happens(0.006):
            self.kill(process)
            return
        call = process.go_on()
        if call is None:
            self.processes.remove(process)
            return
        owner = self.broker.generation
        process.answer = self.perform(call)
        if process.effect == "Reacquire" and self.broker.generation > owner and self.version is V2:
            # Version 1 has to, where it cannot tell a rival from the broker's own timeout.
            self.faults.reacquired(process.generation, owner)
        self.told(process, call, process.answer)
        self.trace.append((call, process.answer))

    def told(self, process, call, answer):
        """What a process learns by an answer, for the oracle."""
        if call[0] == "peek":
            # Without an answer it could not know, nor where somebody has changed the marker since.
            answered = answer not in {None, MOVED, Interruption}
            process.warned &= answered and self.is_foreign(process, answer[1])
        if call[0] == "init" and process.effect == "Own" and process.warned:
            owner = process.query.owner
            self.violations.append(f"{owner} took the id, and the marker said that it is another's")
        if answer in {None, MOVED, Interruption}:
            return
        if call[0] == "look" and process.effect == "DescribeLast":
            # A known limit (docs/guarantees.md): whoever looks after another has gone further takes
            # that one's aborted transaction for its own. Who deletes markers stops such a driver.
            outdated = process.number in process.query.commits
            process.doomed = outdated and self.tampering == "delete"
        if call[0] == "fetch" and process.effect == "ReadMarker":
            process.unread = False
        if call[0] not in {"init", "end"} or answer[0] is not OK or answer[1] is None:
            return
        if call[0] == "init" and not self.claimed(process, call[1:3], answer[2]):
            return
        process.held = answer[1]
        self.faults.holds(process, answer[1])

    def claimed(self, process, asked, owner):
        """Whether an InitProducerId that succeeded gives its asker an identity to keep."""
        if asked == (-1, -1):
            process.generation, process.fences = owner
        elif self.version is V1 and asked == (process.held[0], process.held[1] + 1):
            # The epoch that a timeout raised may be a rival's too; the bare form follows.
            return False
        else:
            self.faults.reacquired(process.generation, owner[0])
        return True

    @staticmethod
    def is_foreign(process, marker):
        """Whether a marker says that the sink is another query's."""
        found = read_marker(marker[1], marker[0]) if marker is not None else None
        return isinstance(found, Marker) and found.owner != process.query.owner

    def perform(self, call):
        """Carry a request to the broker and its answer back, or not."""
        if call[0] in SILENT:
            return None
        if self.healthy:
            return self.execute(call)
        fate = self.rng.random() / self.harshness
        if self.outage_steps > 0:
            fate %= 0.08
        acted = fate >= 0.04 and not 0.08 <= fate < 0.083
        answer = self.execute(call) if acted else None
        if 0.02 <= fate < 0.06:
            self.late.append(call)
        if 0.08 <= fate < 0.086:
            return MOVED
        if 0.086 <= fate < 0.09:
            return Interruption
        return None if 0.05 < fate < 0.08 else answer

    def execute(self, call):
        """Let the broker carry a request out."""
        name, *given = call
        if name == "version":
            return (OK,)
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
            self.late += process.sending
        process.kill()
        self.processes.remove(process)

    def person(self, step):
        """What people do: start another query under the same id, tamper, restore a checkpoint."""
        if self.stranger_at is not None and step >= self.stranger_at and self.at(self.stranger_on):
            self.stranger_at = None
            self.queries.append(Query("stranger"))
            self.start(self.queries[1])
        if self.tampering is None or self.tampered or step < self.tamper_at:
            return
        if not self.at(self.tamper_on):
            return
        if self.tampering != "delete" or self.lets_delete():
            self.tamper()

    def at(self, effect):
        """Whether somebody is about to do this; None for any time."""
        return effect is None or any(process.effect == effect for process in self.processes)

    def lets_delete(self):
        """Whether the marker may be deleted now."""
        # A known limit (docs/guarantees.md): a driver that planned a batch itself believes that
        # nobody has written it, unless a marker says so.
        read = not any(process.unread for process in self.processes)
        return read and (self.crowd == 1 or any(self.broker.logs))

    def tamper(self):
        """Do the one thing that must not be done, and that people do."""
        self.tampered = True
        self.trace.append(("tamper", self.tampering))
        query = self.queries[0]
        if self.tampering == "delete":
            self.broker.forget_marker()
        elif self.tampering == "overwrite":
            self.broker.marker = (0, "a tool wrote here")
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
        """An error reached Spark: a refusal and a fence must have a cause.

        Returns whether the query may be started again.
        """
        self.counts[type(error).__name__] += 1
        self.trace.append(("raised", type(error).__name__))
        if isinstance(error, ProtocolViolation):
            self.violations.append(str(error))
        if isinstance(error, MarkerMissing) and not self.broker.founded:
            self.adopt(process.query)
        elif isinstance(error, RecoveryError):
            process.query.refused.append(error)
        if isinstance(error, Fenced) and process.fences == self.broker.fences:
            self.violations.append(f"fenced although no newer owner exists: {error}")
        why = unfounded(self, error)
        if why is not None:
            self.violations.append(why)
        return error not in process.query.refused

    def adopt(self, query):
        """A person who knows that nothing was written yet says so."""
        self.trace.append(("adopt", query.owner))
        self.counts["adopted"] += 1
        number = query.next_batch() - 1
        self.broker.marker = (0, Marker(query.owner, number, "", 0, 0, 0, 0).to_text())
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
        while self.processes:
            self.kill(self.processes[0])
        while self.late:
            self.deliver()
        self.broker.complete()

    def settled(self):
        """Whether the process is between two batches."""
        return self.queries[0].next_batch() not in self.queries[0].offsets
