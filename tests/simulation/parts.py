"""The parts of a sink as they ship, and sinks with one part exchanged."""

from simulation.engine import Engine

from twophase.commit.machine import TABLE, Machine
from twophase.kafka.store import KafkaStore
from twophase.kafka.transactions import Transactions


class Shipped:
    """What the package brings, over the simulated engine."""

    machine = Machine
    store = KafkaStore
    engine = Engine

    @staticmethod
    def offsets_hash(offsets):
        """The hash of offsets/N; here the offsets themselves."""
        return offsets

    @staticmethod
    def run_id(run_id):
        """The run id that the machine is told."""
        return run_id


def sink_with(part):
    """Return a sink in which this part takes the place of the one that ships."""
    if issubclass(part, Shipped):
        return part
    if issubclass(part, Transactions):
        part = store_with(part)
    return type(part.__name__, (Shipped,), {_place_of(part): part})


def _place_of(part):
    whole = {"machine": Machine, "store": KafkaStore, "engine": Engine}
    return next(place for place, kind in whole.items() if issubclass(part, kind))


def store_with(transactions):
    """Return a store over transactions of this kind."""

    class Store(KafkaStore):
        def __init__(self, wire, name, topic):
            super().__init__(wire, name, topic)
            self._transactions = transactions(wire)

    return Store


def machine_with(*rows):
    """Return a machine in whose table these rows go before all others."""
    return type("Changed", (Machine,), {"table": (*rows, *TABLE)})
