"""Fills a source topic with the rows of an input: every row once, each key's in order."""

import time
from typing import Final

from twophase.kafka.counts import ask_partition_counts
from twophase.kafka.idempotent import ProducerIds
from twophase.kafka.outlets import SureOutlet
from twophase.kafka.plan import plan_for
from twophase.kafka.records import encode
from twophase.kafka.wire import Wire
from twophase.verify.history import Record, RowsProduced
from twophase.verify.rows import Input

# Few enough that making them takes a moment only, so that `time_ms` is true.
_CHUNK_ROWS: Final = 20_000


class Filler:
    """Writes rows of an input to a topic, idempotently; one filler at a time for a topic."""

    def __init__(self, wire: Wire, topic: str, of: Input, record: Record) -> None:
        self._wire, self._input, self._record = wire, of, record
        self._plan = plan_for(wire.options, topic, ask_partition_counts(wire, [topic]))
        self._producers = ProducerIds(wire)

    def fill(self, first: int, stop: int) -> None:
        """Write the rows `first` to `stop` - 1; all are acknowledged when this returns."""
        outlet = SureOutlet(lambda: self._wire, self._producers.following)
        try:
            for start in range(first, stop, _CHUNK_ROWS):
                now_ms = int(time.time() * 1000)
                rows = self._input.table(start, min(start + _CHUNK_ROWS, stop), now_ms)
                for block in encode(rows, self._plan, now_ms=now_ms):
                    outlet.send(block)
            outlet.finish()
        finally:
            outlet.close()
        self._record(RowsProduced(first=first, stop=stop))
