"""How many partitions each topic has, asked for when a row first names it."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.kafka.identity import TopicPartition
from twophase.kafka.leaders import (
    leaders_in,
    leaders_request,
    partition_counts_in,
    topic_ids_in,
)
from twophase.kafka.wire import Wire

# A broker that has not heard of a new topic yet answers as if there were none.
_NEW_TOPIC_S: Final = 1.0
_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class TopicLook:
    """What one answer says of topics: how many partitions, which leaders, which ids they have."""

    counts: Mapping[str, int]
    leaders: Mapping[TopicPartition, int]
    ids: Mapping[str, Any]


NO_LOOK: Final = TopicLook({}, {}, {})


def ask_partition_counts(wire: Wire, topics: Iterable[str]) -> Mapping[str, int]:
    """Return the number of partitions of each topic."""
    return look_at(wire, topics).counts


def look_at(wire: Wire, topics: Iterable[str]) -> TopicLook:
    """Return what is known of the topics now; asked again while no broker can tell."""
    names = sorted(set(topics))
    if not names:
        return NO_LOOK
    began = time.monotonic()
    while True:
        try:
            answer = wire.ask(leaders_request(names))
            return TopicLook(partition_counts_in(answer), leaders_in(answer), topic_ids_in(answer))
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
