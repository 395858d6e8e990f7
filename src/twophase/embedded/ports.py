"""Loopback ports that are free now and likely to be so after a node's restart."""

import random
import socket

from twophase.embedded.settings import HOST
from twophase.errors import SetupError

# Below the range that systems hand out to outgoing connections (32768 or 49152 and up): a port
# from there could go to any client while its node is down, and the node could not come back.
_FIRST, _LAST = 15000, 32000
_TRIES = 2000
# One that is kept for a proxy has no listener yet, and must not be given out again.
_given: set[int] = set()


class PortTaken(SetupError):
    """Another process listens on a port that a node was to have."""


def free_ports(count: int) -> list[int]:
    """Return as many different ports that nobody listens on."""
    chosen: list[int] = []
    for port in random.sample(range(_FIRST, _LAST), _TRIES):
        if port not in _given and is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            _given.update(chosen)
            return chosen
    raise SetupError(f"no {count} free ports between {_FIRST} and {_LAST}; end what holds them")


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this port of the loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def port_taken(port: int) -> PortTaken:
    """Return the error for a port that the user chose and another process holds."""
    return PortTaken(
        f"port {port} is taken by another process; stop that process, or choose another port "
        "(without one a free port is found)"
    )
