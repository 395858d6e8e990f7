"""Which batch each sink id of this process has written last, by which run and which object.

Two sink objects under one id have a machine each. Called for one batch, the second would find the
first one's marker, take the batch for written, and lose its rows without a word.
"""

import threading
from dataclasses import dataclass

from twophase.errors import WrongBatch


@dataclass(frozen=True, slots=True)
class Written:
    """The last batch of one sink id on one cluster."""

    run_id: str
    number: int
    object_id: str


_LAST: dict[tuple[str, str], Written] = {}
_LOCKS: dict[tuple[str, str], threading.Lock] = {}


def one_call(place: tuple[str, str]) -> threading.Lock:
    """Return the lock of all objects in this process that write to one place."""
    return _LOCKS.setdefault(place, threading.Lock())


def check_not_written(place: tuple[str, str], now: Written) -> None:
    """Refuse a batch that another object has written in the same run; `place` is cluster and id."""
    last = _LAST.get(place)
    if last is None or last.run_id != now.run_id or last.object_id == now.object_id:
        return
    if now.number <= last.number:
        raise WrongBatch(
            f"batch {now.number} was written in this run by another sink object with the same "
            "sink_id: its one marker stands for all rows of a batch; call one sink once, with all "
            "rows, or give each sink an id of its own",
            sink_id=place[1],
        )


def note_written(place: tuple[str, str], now: Written) -> None:
    """Remember a batch that is in the topic."""
    _LAST[place] = now
