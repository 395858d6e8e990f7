"""How many partitions each topic has, asked for when a row first names it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.kafka.leaders import leaders_request, partition_counts_in
from twophase.kafka.wire import Wire

# A broker that has not heard of a new topic yet answers as if there were none.
_NEW_TOPIC_S: Final = 1.0
_PAUSE_S: Final = 0.1


def ask_partition_counts(wire: Wire, topics: Iterable[str]) -> Mapping[str, int]:
    """Return the number of partitions of each topic; asked again while no broker can tell."""
    names = sorted(set(topics))
    began = time.monotonic()
    while True:
        try:
            return partition_counts_in(wire.ask(leaders_request(names)))
        except ConfigurationError:
            if time.monotonic() >= began + _NEW_TOPIC_S:
                raise
        except StoreUnavailable:
            if wire.broken or time.monotonic() >= began + wire.options.max_block_ms / 1000:
                raise
        time.sleep(_PAUSE_S)


class PartitionCounts(Mapping[str, int]):
    """The partition counts of the topics that were asked for so far; looked up once each."""

    def __init__(self, connect: Callable[[], Wire]) -> None:
        self._connect = connect
        self._found: dict[str, int] = {}

    def __getitem__(self, topic: str) -> int:
        if topic not in self._found:
            self._found |= ask_partition_counts(self._connect(), [topic])
        return self._found[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
