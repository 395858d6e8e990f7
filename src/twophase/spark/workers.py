"""What a Python worker of Spark keeps between tasks: connections, and its producer id."""

import gc
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext

from twophase.errors import ProtocolViolation
from twophase.kafka.idempotent import ProducerIds
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire
from twophase.kafka.wires import shared_wire


@dataclass(frozen=True, slots=True)
class Connection:
    """This worker's way to one cluster; a worker runs one task at a time."""

    wire: Wire
    producer_ids: ProducerIds


_FREEZES: Final = 2
_FROZEN: set[int] = set()
_CONNECTIONS: dict[KafkaOptions, Connection] = {}


def connection(options: KafkaOptions) -> Connection:
    """Return this worker's connections; Spark keeps workers for reuse, and so these."""
    found = _CONNECTIONS.get(options)
    if found is None or found.wire.broken:
        wire = shared_wire(options)
        found = _CONNECTIONS[options] = Connection(wire, ProducerIds(wire))
    return found


def task_context() -> Any:
    """Return the task that runs here."""
    context = TaskContext.get()
    if context is None:
        raise ProtocolViolation("this runs in a Spark task only")
    _spare_the_collector(context.taskAttemptId())
    return context


def _spare_the_collector(attempt: int) -> None:
    """Keep what is loaded by now out of the full collection that Spark runs after every task.

    Twice, as the first task loads modules on its way.
    """
    if attempt not in _FROZEN and len(_FROZEN) < _FREEZES:
        _FROZEN.add(attempt)
        gc.freeze()
