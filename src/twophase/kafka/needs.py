"""Every right that a sink needs: what `twophase check` asks about, and docs/security.md shows.

WRITE and READ include DESCRIBE. A name in braces is the user's; one that ends with * is a prefix.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from twophase.kafka.rights import GROUP, TOPIC, TRANSACTIONAL_ID

READ: Final = "READ"
WRITE: Final = "WRITE"


@dataclass(frozen=True, slots=True)
class Need:
    """One right, and what the sink does with it."""

    operation: str
    kind: str
    name: str
    why: str

    def __str__(self) -> str:
        if self.name.endswith("*"):
            return f"{self.operation} on {self.kind}s that begin with {self.name[:-1]!r}"
        return f"{self.operation} on {self.kind} {self.name!r}"

    def covers(self, kind: str, name: str) -> bool:
        """Whether it is about this resource."""
        if kind != self.kind:
            return False
        if self.name.endswith("*"):
            return name.startswith(self.name[:-1])
        return name == self.name


_SINK: Final = "twophase.{sink}"

# By the names that the tables of docs/security.md have.
TABLES: Final[Mapping[str, tuple[Need, ...]]] = MappingProxyType(
    {
        "batch scope": (
            Need(WRITE, TOPIC, "{topic}", "rows"),
            Need(READ, TOPIC, "{marker}", "the marker, which is a committed offset of the topic"),
            Need(READ, GROUP, _SINK, "the marker"),
            Need(WRITE, TRANSACTIONAL_ID, _SINK, "the transaction"),
        ),
        "batch job": (
            Need(WRITE, TOPIC, "{topic}", "rows"),
            Need(READ, TOPIC, "{marker}", "the marker"),
            Need(READ, GROUP, f"{_SINK}/*", "the markers of all runs"),
            Need(WRITE, TRANSACTIONAL_ID, f"{_SINK}/*", "the transactions of all runs"),
        ),
        "task scope": (
            Need(WRITE, TOPIC, "{topic}", "rows"),
            Need(READ, TOPIC, "{marker}", "the marker, which says who owns the sink"),
            Need(READ, GROUP, _SINK, "the marker"),
            Need(
                *(READ, GROUP, f"{_SINK}//drivers"),
                "which drivers there were, for what they left open",
            ),
            Need(WRITE, TRANSACTIONAL_ID, _SINK, "the marker"),
            Need(
                *(WRITE, TRANSACTIONAL_ID, f"{_SINK}//*"),
                "the transactions of all tasks, and those of dead ones",
            ),
        ),
        "at-least-once": (
            Need(
                WRITE, TOPIC, "{topic}", "rows; it also allows idempotent writes, since Kafka 3.0"
            ),
        ),
        "dead letters": (Need(WRITE, TOPIC, "{letters}", "rows that cannot be written"),),
        "source": (
            Need(READ, TOPIC, "{source}", "rows; with `source_group` also the batch's progress"),
            Need(READ, GROUP, "{group}", "only with `source_group`: the batch's progress"),
        ),
    }
)


def needs_of(section: str, **names: str) -> tuple[Need, ...]:
    """Return the rights of one table, with these names put in."""
    return tuple(replace(need, name=need.name.format(**names)) for need in TABLES[section])
