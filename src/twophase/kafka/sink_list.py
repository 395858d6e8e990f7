"""Every sink that a cluster knows of, by the names of its transactional ids and groups."""

from collections.abc import Callable
from dataclasses import dataclass

from twophase.commit.naming import PREFIX, SinkName
from twophase.errors import AccessDenied, ConfigurationError
from twophase.kafka.admin import list_transactions
from twophase.kafka.groups import list_groups
from twophase.kafka.sink_state import SinkState, look
from twophase.kafka.wire import Wire


@dataclass(frozen=True, slots=True)
class ListedSink:
    """One sink or one run of a batch job; `why` says why its state cannot be told."""

    sink_id: str
    run_id: str | None
    state: SinkState | None
    why: str | None = None


def sink_names(wire: Wire) -> tuple[SinkName, ...]:
    """Return the sinks whose transactional id or marker the brokers remember.

    Both are asked for: after a quiet week either may be forgotten before the other.
    """
    ids = [row.transactional_id for row in list_transactions(wire, prefix=PREFIX)]
    names = {SinkName.read(text) for text in (*ids, *list_groups(wire, PREFIX))}
    found = [name for name in names if name is not None]
    return tuple(sorted(found, key=lambda name: name.transactional_id))


def list_sinks(
    wire: Wire, told: Callable[[int], Callable[[], None]] = lambda _: lambda: None
) -> tuple[ListedSink, ...]:
    """Return all sinks with their states, and change nothing."""
    names = sink_names(wire)
    advance, found = told(len(names)), []
    for name in names:
        state = why = None
        try:
            state = look(wire, name)
        except (AccessDenied, ConfigurationError) as error:
            why = error.message
        found.append(ListedSink(name.sink_id, name.run_id, state, why))
        advance()
    return tuple(found)
