"""Which batch each sink id of this process has written last, by which run and which object.

Two sink objects under one id have a machine each. Called for one batch, the second would find the
first one's marker, take the batch for written, and lose its rows without a word.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
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


class Calls:
    """The calls of one sink object: none goes past a batch whose call failed, wherever it did.

    A user who catches the error of one batch and goes on would lose its rows without a word.
    """

    def __init__(self, sink_id: str) -> None:
        self._sink_id = sink_id
        self._failed: int | None = None

    @contextmanager
    def call(self, number: int) -> Iterator[None]:
        """Let one batch be written; a query that starts again comes to the failed one first."""
        if self._failed is not None and self._failed < number:
            raise WrongBatch(
                f"batch {self._failed} failed and its error did not end the query; batch {number} "
                "would leave its rows out; let the sink's errors reach Spark",
                sink_id=self._sink_id,
            )
        try:
            yield
        except BaseException:
            self._failed = number
            raise
        self._failed = None
