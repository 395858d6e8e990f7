"""What the sinks of a run are at: a hook of all of them."""

import queue
from collections.abc import Iterator
from typing import Any

from twophase.observe import BatchRecord


class Following:
    """Keeps the records until the run asks for them, and the calls that go on."""

    def __init__(self) -> None:
        self._records: queue.SimpleQueue[BatchRecord] = queue.SimpleQueue()
        self._call: Any = None

    def __call__(self, record: BatchRecord) -> None:
        """Take the record of a call that has ended."""
        self._records.put(record)

    def follow(self, call: Any) -> None:
        """Take a call that begins, where sinks tell of it."""
        self._call = call

    def records(self) -> Iterator[BatchRecord]:
        """Yield the records that nobody has asked for yet."""
        while not self._records.empty():
            yield self._records.get()

    def phase(self) -> str | None:
        """Return what the call that goes on does; None where none does."""
        watch = self._watch()
        return None if watch is None else str(watch.phase.value)

    def transaction(self) -> tuple[float | None, float | None]:
        """Return age and limit of the open transaction, in seconds; None where there is none."""
        watch = self._watch()
        opening = None if watch is None else watch.opening
        return (None, None) if opening is None else (opening.age_s, opening.limit_s)

    def _watch(self) -> Any:
        call = self._call
        return None if call is None or call.watch.is_over else call.watch
