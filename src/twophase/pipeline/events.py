"""What a run tells as it goes: frozen records, which the command line prints as text or as JSON."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, TypeVar

from twophase.observe import BatchRecord


@dataclass(frozen=True, slots=True)
class Event:
    """Base; `event` is its name for programs."""

    event: ClassVar[str] = "event"

    def told(self) -> dict[str, Any]:
        """Return the event as JSON values."""
        return {"event": self.event, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Started(Event):
    """The query runs, for the first time or again."""

    event: ClassVar[str] = "started"
    pipeline: str
    checkpoint: str
    sinks: tuple[str, ...]
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class BatchDone(Event):
    """A sink has done with a batch: the record of the call."""

    event: ClassVar[str] = "batch"
    record: BatchRecord

    def told(self) -> dict[str, Any]:
        """Return the record's own fields, flat."""
        return {"event": self.event, **asdict(self.record)}


@dataclass(frozen=True, slots=True)
class Status(Event):
    """How it goes: what a person wants to see on a terminal."""

    event: ClassVar[str] = "status"
    batch: int | None = None
    phase: str = "starting"
    rows: int = 0
    rows_per_s: float = 0.0
    lag: int | None = None
    transaction_age_s: float | None = None
    transaction_limit_s: float | None = None
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Restarting(Event):
    """The query failed and is started again after a pause; `error_code` as in `failed`."""

    event: ClassVar[str] = "restarting"
    error: str
    restart: int
    of: int
    pause_s: float
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class Stopping(Event):
    """Somebody asked for the end; the batch under way is finished first."""

    event: ClassVar[str] = "stopping"
    batch: int | None


@dataclass(frozen=True, slots=True)
class Stopped(Event):
    """The run is over: the last batch that is finished, and where it ends in the source."""

    event: ClassVar[str] = "stopped"
    why: str
    batch: int | None
    rows: int
    restarts: int
    offsets: Mapping[str, Any] = field(default_factory=dict)


Tell = Callable[[Event], None]
T = TypeVar("T")


def hidden(value: T, hide: Callable[[str], str]) -> T:
    """Return an event, or anything in one, with every text in it as `hide` returns it."""
    made: Any = value
    if isinstance(value, str):
        made = hide(value)
    elif is_dataclass(value) and not isinstance(value, type):
        given = {each.name: getattr(value, each.name) for each in fields(value)}
        made = replace(value, **{name: hidden(each, hide) for name, each in given.items()})
    elif isinstance(value, Mapping):
        made = {hidden(key, hide): hidden(each, hide) for key, each in value.items()}
    elif isinstance(value, list | tuple):
        made = type(value)(hidden(each, hide) for each in value)
    return made  # type: ignore[no-any-return]
