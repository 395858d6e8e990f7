"""The connections of this process, one set for each cluster and its options."""

import threading

from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire

_WIRES: dict[KafkaOptions, Wire] = {}
_LOCK = threading.Lock()


def shared_wire(options: KafkaOptions) -> Wire:
    """Return the process's connections to a cluster; made anew where they have died."""
    with _LOCK:
        found = _WIRES.get(options)
        if found is None or found.broken:
            found = _WIRES[options] = Wire(options)
        return found


def close_shared_wires() -> None:
    """Close them all; whoever asks after this gets new ones."""
    with _LOCK:
        while _WIRES:
            _WIRES.popitem()[1].close()
