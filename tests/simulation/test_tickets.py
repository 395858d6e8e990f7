"""Identities for attempts over simulated coordinators: an ask that is late, or looks undone."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
from kafka.protocol.producer.transaction import InitProducerIdRequest
from simulation.broker import OK, V1, V2, Broker
from simulation.wire import MOVED, TRANSLATIONS, Clock

from twophase.errors import StoreUnavailable
from twophase.kafka.pool import Pool
from twophase.kafka.tickets import take_identity

MADE = ".1"


class Coordinators:
    """A wire to one simulated coordinator for each transactional id; counts the asks for each."""

    broken = False

    def __init__(self, version):
        self.version, self.clock = version, Clock()
        self.options = SimpleNamespace(
            max_block_ms=1_000, transaction_timeout_ms=60_000, retry_backoff_ms=100
        )
        self.brokers = defaultdict(lambda: Broker(version, 1, 100))
        self.asked = defaultdict(int)
        self.fault = None

    def coordinator(self, _kind, key, _limit_ms=None):
        return key

    def forget_coordinator(self, _kind, _key):
        """Nothing is remembered."""

    def transaction_version(self):
        return self.version

    def ask(self, request, name):
        translate, answer = TRANSLATIONS[type(request)]
        if isinstance(request, InitProducerIdRequest):
            self.asked[name] += 1
            if name.endswith(MADE) and self.asked[name] == 1 and self.fault:
                return answer(request, self.fault(name, translate(request)))
        return answer(request, self.act(name, translate(request)))

    def act(self, name, call):
        kind, *given = call
        broker = self.brokers[name]
        if kind == "look":
            return (broker.describe(),)
        if kind == "end":
            identity, version, commit = given
            found = broker.end(identity, version, commit=commit)
        else:
            found = getattr(broker, kind)(*given)
        broker.complete()
        return found


@pytest.mark.parametrize("version", [V1, V2])
def test_an_ask_that_comes_after_its_batch(version):
    """The driver has not given the id to others, so that nothing of theirs is aborted."""
    wire, late = Coordinators(version), []

    def lose(name, call):
        late.append((name, call))
        raise StoreUnavailable("no answer")

    wire.fault = lose
    pool = Pool(lambda: wire, "t/", 9)
    assert take_identity(wire, pool.open()).transactional_id == "t/1.2"
    hand = pool.open()
    taken = [take_identity(wire, hand) for _ in range(3)]
    for name, call in late:
        wire.act(name, call)
    for each in taken:
        assert wire.brokers[each.transactional_id].current == (each.producer_id, each.epoch)


@pytest.mark.parametrize("version", [V1, V2])
def test_an_ask_that_was_acted_on_and_looks_undone(version):
    """Asked again by an attempt that hung before, it would come when the id is another's."""
    wire = Coordinators(version)

    def move(name, call):
        assert wire.act(name, call)[0] is OK
        return MOVED

    wire.fault = move
    pool = Pool(lambda: wire, "t/", 9)
    assert take_identity(wire, pool.open()).transactional_id == "t/1.2"
    assert wire.asked["t/1.1"] == 1
    assert "t/1.1" in {each.transactional_id for each in pool.open().identities}
