"""What happened in a verification: frozen events, appended to a file that a kill leaves readable.

Each event is one line of JSON, written by one call to a file that is open for appending: so several
processes of one machine may write the same history, and kill -9 of one of them costs at most the
line that it was writing. Times are `time.monotonic()`, which on one machine is the same clock for
all processes.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from twophase.errors import ConfigurationError
from twophase.observe import BatchRecord

_KIND: Final = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at one time; `sink` is empty where it concerns all sinks."""

    at_s: float = field(default_factory=time.monotonic)
    sink: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsProduced(Event):
    """The source topic has acknowledged the rows `first` to `stop` - 1 of the input."""

    first: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInjected(Event):
    """A process was killed, a connection cut: what, and to whom."""

    kind: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted(Event):
    """A process under test has started."""

    name: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded(Event):
    """A process under test is gone; `code` is negative for the signal that ended it."""

    name: str
    pid: int
    code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDone(Event):
    """A sink's own record of one call, field by field as in `twophase.observe.BatchRecord`."""

    record: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsSeen(Event):
    """How far the running reader is: rows it has seen, and the next offset of each partition."""

    rows: int
    reached: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStalled(Event):
    """Rows of a partition, from `offset` on, were hidden from readers for `held_s` until now."""

    partition: int
    offset: int
    held_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderTroubled(Event):
    """The running reader got no answer; it goes on."""

    error: str


EVENTS: Final[Mapping[str, type[Event]]] = {
    kind.__name__: kind
    for kind in (
        RowsProduced,
        FaultInjected,
        ProcessStarted,
        ProcessEnded,
        BatchDone,
        RowsSeen,
        ReaderStalled,
        ReaderTroubled,
    )
}

Record = Callable[[Event], None]
E = TypeVar("E", bound=Event)


class HistoryFile:
    """A history that is being written; each event is in the file when `record` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def record(self, event: Event) -> None:
        """Append an event; after `close` nothing is written, wherever the file's number went."""
        if self._file < 0:
            return
        line = {_KIND: type(event).__name__, **asdict(event)}
        # The line break comes first as well: behind a line that a killed process has not finished,
        # this one would else be lost with it.
        os.write(self._file, b"\n" + json.dumps(line).encode() + b"\n")

    def batch_hook(self, sink: str) -> Callable[[BatchRecord], None]:
        """Return a hook for a sink, which records what it says of each batch."""
        return lambda batch: self.record(BatchDone(sink=sink, record=asdict(batch)))

    def close(self) -> None:
        """Close the file."""
        closing, self._file = self._file, -1
        if closing >= 0:
            os.close(closing)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class History:
    """All events, by time; `unfinished` counts the lines that a killed process has left so."""

    events: tuple[Event, ...]
    unfinished: int = 0

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a history, also while it is being written; refuse what is no history."""
        events, unfinished = [], 0
        for at, line in enumerate(path.read_bytes().split(b"\n"), start=1):
            if not line:
                continue
            try:
                found = json.loads(line)
            except ValueError:
                unfinished += 1
                continue
            events.append(_event(found, f"{path}, line {at}"))
        return cls(tuple(sorted(events, key=lambda event: event.at_s)), unfinished)

    def of(self, sink: str) -> "History":
        """Return what concerns one sink: its own events and those of all sinks."""
        kept = tuple(event for event in self.events if event.sink in {"", sink})
        return History(kept, self.unfinished)

    def all(self, kind: type[E]) -> Iterator[E]:
        """Return the events of one kind, by time."""
        return (event for event in self.events if isinstance(event, kind))


def _event(found: object, where: str) -> Event:
    kind = EVENTS.get(str(found.get(_KIND))) if isinstance(found, dict) else None
    if not isinstance(found, dict) or kind is None:
        raise ConfigurationError(f"{where} holds no event of a history: {str(found)[:80]}")
    names = {each.name for each in fields(kind)}
    given = {name: value for name, value in found.items() if name != _KIND}
    if set(given) != names:
        raise ConfigurationError(
            f"{where} holds an event {kind.__name__} with {_list(given)}; it must have "
            f"{_list(names)}: the history was written by another version"
        )
    if "reached" in given:
        # JSON's keys are strings.
        given["reached"] = {int(key): value for key, value in given["reached"].items()}
    return kind(**given)


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
