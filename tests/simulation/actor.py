"""A store played by hand: it goes on until it is about to ask something, and waits there."""

from greenlet import getcurrent, greenlet
from simulation.wire import SimulatedWire

from twophase.commit.effects import WriteMarker
from twophase.commit.naming import SinkName
from twophase.kafka.store import KafkaStore


class Actor:
    """One driver's store over a broker that answers everything."""

    timeout_ms = 60_000

    def __init__(self, broker, version, store=KafkaStore):
        self.broker = broker
        self.store = store(SimulatedWire(self, version), SinkName("sink"), "topic")
        self.played_by = self.act = self.call = None

    def ask(self, call):
        return self.played_by.switch(call)

    def begin(self, act, *given, until):
        """Begin something, and stop before the broker is asked for `until`."""
        self.played_by, self.act = getcurrent(), greenlet(act)
        self.call = self.act.switch(*given)
        return self.go_on(until)

    def go_on(self, until=None):
        """Go on to the next such question, or to the end; return the question, or the result."""
        while not self.act.dead and self.call[0] != until:
            self.answered()
        return self.call

    def answered(self, *, lost=False):
        """Let the broker act on the question; the answer comes, or gets lost."""
        answer = self.asked()
        self.broker.complete()
        self.call = self.act.switch(None if lost else answer)

    def asked(self):
        name, *given = self.call
        if name == "version":
            return ("NONE",)
        if name == "look":
            return (self.broker.describe(),)
        if name == "end":
            identity, version, commit = given
            return self.broker.end(identity, version, commit=commit)
        return getattr(self.broker, name)(*given)

    def do(self, act, *given):
        """Do something to its end; return its result."""
        return self.begin(act, *given, until=None)

    def look(self):
        return self.do(self.store.describe_last)

    def own(self):
        """Look and take: the identity, and what is certain about the transaction before it."""
        self.look()
        return self.do(self.store.own)

    def mark(self, identity, batch=0):
        """Write the marker of a batch into the transaction."""
        self.do(self.store.write_marker, identity, WriteMarker(identity, "query", batch, "", 0, 0))

    def commit(self, identity):
        return self.do(self.store.commit, identity)
