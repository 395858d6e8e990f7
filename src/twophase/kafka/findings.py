"""What a check found: one point, how bad it is, why it matters and what to do."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is; what is not known is never ok."""

    OK = "ok"
    UNKNOWN = "not known"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One point of a check; `why` and `do` are empty where there is nothing to do."""

    point: str
    level: Level
    said: str
    why: str = ""
    do: str = ""


def ok(point: str, said: str) -> Finding:
    """Return that a point is as it should be."""
    return Finding(point, Level.OK, said)


def unknown(point: str, said: str, do: str = "") -> Finding:
    """Return that a point cannot be told."""
    return Finding(point, Level.UNKNOWN, said, "what is not known may be wrong", do)


def warning(point: str, said: str, why: str, do: str) -> Finding:
    """Return a point that works, and may hurt."""
    return Finding(point, Level.WARNING, said, why, do)


def error(point: str, said: str, why: str, do: str) -> Finding:
    """Return a point that does not work."""
    return Finding(point, Level.ERROR, said, why, do)
