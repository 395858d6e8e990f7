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
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire

# A broker that has not heard of a new topic yet answers as if there were none.
_NEW_TOPIC_S: Final = 1.0
_PAUSE_S: Final = 0.1
# Another broker may have heard of it: no topic is taken for missing by one answer alone.
_SECOND_LOOK_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class TopicLook:
    """What one answer says of topics: how many partitions, which leaders, which ids they have."""

    counts: Mapping[str, int]
    leaders: Mapping[TopicPartition, int]
    ids: Mapping[str, Any]


NO_LOOK: Final = TopicLook({}, {}, {})


def checked_wire(options: KafkaOptions, topics: Iterable[str]) -> Wire:
    """Return connections to brokers that have all these topics, or say now which they lack."""
    wire = Wire(options)
    try:
        ask_partition_counts(wire, topics)
    except BaseException:
        wire.close()
        raise
    return wire


def ask_partition_counts(wire: Wire, topics: Iterable[str]) -> Mapping[str, int]:
    """Return the number of partitions of each topic."""
    return look_at(wire, topics).counts


def look_at(
    wire: Wire,
    topics: Iterable[str],
    *,
    maybe: Iterable[str] = (),
    new_topic_s: float = _NEW_TOPIC_S,
) -> TopicLook:
    """Return what is known of the topics now; asked again while no broker can tell.

    Those of `maybe` need not exist, and are then left out.
    """
    needed, optional = set(topics), set(maybe)
    names = sorted(needed | optional)
    if not names:
        return NO_LOOK
    began = time.monotonic()
    while True:
        late = time.monotonic() >= began + new_topic_s
        try:
            answer = wire.ask(leaders_request(names))
            counts = partition_counts_in(answer, optional - needed if late else ())
            return TopicLook(counts, leaders_in(answer), topic_ids_in(answer))
        except ConfigurationError:
            if late:
                raise
        except StoreUnavailable:
            if wire.broken or time.monotonic() >= began + wire.options.max_block_ms / 1000:
                raise
        time.sleep(_PAUSE_S)


class PartitionCounts(Mapping[str, int]):
    """The partition counts of the topics that were asked for so far; looked up once each.

    A topic that does not exist is raised, or, where topics are `optional`, is not in it. Those that
    are `known` are not asked for.
    """

    def __init__(
        self,
        connect: Callable[[], Wire],
        *,
        optional: bool = False,
        known: Mapping[str, int] | None = None,
    ) -> None:
        self._connect = connect
        self._optional = optional
        self._found: dict[str, int] = dict(known or {})
        self._missing: set[str] = set()

    def __getitem__(self, topic: str) -> int:
        self.learn([topic])
        return self._found[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def learn(self, topics: Iterable[str]) -> None:
        """Look up those that were not asked for yet, all at once."""
        names = set(topics) - set(self._found) - self._missing
        if not names:
            return
        if not self._optional:
            self._found |= ask_partition_counts(self._connect(), names)
            return
        # Once is enough to wait long for a topic that was made just now: rows may name very many.
        patience_s = _SECOND_LOOK_S if self._missing else _NEW_TOPIC_S
        look = look_at(self._connect(), (), maybe=names, new_topic_s=patience_s)
        self._found |= look.counts
        self._missing |= names - set(look.counts)
