"""Open transactions of a sink's tasks, found at the brokers by name and ended one by one.

They are listed where the brokers do that, by all of them together. Otherwise their names are
guessed: which drivers there were is noted with the sink (`ownership.py`), and how many tickets each
of them has given out is the epoch of its ticket, which Kafka itself keeps.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from typing import Final

from twophase.errors import (
    AccessDenied,
    CommitRejected,
    ConfigurationError,
    StoreUnavailable,
)
from twophase.kafka.admin import TransactionState, describe_transaction, list_transactions
from twophase.kafka.asking import ask_each
from twophase.kafka.identity import Identity
from twophase.kafka.pool import end_exactly
from twophase.kafka.wire import Wire

_log = logging.getLogger("twophase")

_DRIVER: Final = re.compile(r"(\d{10})/.+")
_TICKETS_MAX: Final = 1_000


def driver_base(prefix: str, epoch: int) -> str:
    """Return how all transactional ids of one driver's tasks begin."""
    return f"{prefix}{epoch:010d}/"


def epoch_in(prefix: str, name: str) -> int | None:
    """Return the epoch of the driver whose task has this transactional id."""
    found = _DRIVER.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
    return int(found[1]) if found else None


def listed(wire: Wire, prefix: str, ended: range) -> list[str] | None:
    """Return the ids of these drivers that have something open; None where nobody lists them."""
    deadline_s = wire.clock.now_s() + wire.options.max_block_ms / 1000
    while True:
        try:
            found = list_transactions(wire, prefix=prefix, states=(TransactionState.ONGOING,))
            break
        except (AccessDenied, ConfigurationError, CommitRejected) as error:
            _log.warning("%s: open transactions are not listed, and guessed: %s", prefix, error)
            return None
        except StoreUnavailable:
            # A broker that has just started is still reading its transactions; one that is gone
            # has left them to the others.
            if wire.broken or wire.clock.now_s() >= deadline_s:
                raise
            wire.look_anew()
        wire.clock.sleep(wire.options.retry_backoff_ms / 1000)
    names = [each.transactional_id for each in found]
    return [name for name in names if epoch_in(prefix, name) in ended]


def guessed(wire: Wire, prefix: str, epoch: int) -> Iterator[str]:
    """Yield every id that attempts of this driver may have made."""
    for ticket in range(1, _TICKETS_MAX):
        name = f"{driver_base(prefix, epoch)}{ticket}"
        seen = describe_transaction(wire, name)
        if seen is None:
            return
        yield from (f"{name}.{number}" for number in range(1, seen.epoch + 1))


def end_all(wire: Wire, names: Iterable[str]) -> None:
    """Abort what is open under each of these ids."""
    if not (names := list(names)):
        return
    version = wire.transaction_version()

    def end(name: str) -> None:
        end_exactly(wire, Identity(name, -1, -1, version))

    ask_each(end, names)
