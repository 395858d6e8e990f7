"""Where read_committed readers of a partition stand still, and which transaction makes them.

A reader in read_committed gets no further than the last stable offset: the first offset of the
oldest transaction that is open in the partition. Its leader tells that offset, the end of the log,
and where each producer's open transaction begins and how far it has come.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin.transactions import DescribeProducersRequest

from twophase.errors import AccessDenied, ConfigurationError, StoreUnavailable
from twophase.kafka.ends import latest_request
from twophase.kafka.identity import TopicPartition
from twophase.kafka.leaders import leaders_in, leaders_request
from twophase.kafka.wire import Wire

# Group offsets: no reader of rows is held back there, and few may look into it.
OFFSETS_TOPIC: Final = "__consumer_offsets"
_NOTHING_OPEN: Final = -1


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of a partition; `None` is what its leader did not tell.

    `open_from` has the producers with an open transaction and its first offset, `sequences` how far
    every producer has come.
    """

    stable: int | None = None
    end: int | None = None
    open_from: Mapping[int, int] | None = None
    sequences: Mapping[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """One partition of an open transaction; `None` is what its leader did not tell.

    `holds` says whether this transaction is the one at which readers stand still, `held_back` how
    many records lie behind that point, those of other transactions and control records included.
    """

    topic: str
    partition: int
    first_offset: int | None
    last_stable_offset: int | None
    end_offset: int | None
    held_back: int | None
    holds: bool | None
    last_sequence: int | None


def hold_of(place: TopicPartition, producer_id: int, tail: Tail) -> Hold:
    """Return what an open transaction of a producer does to the readers of a partition."""
    first = None if tail.open_from is None else tail.open_from.get(producer_id)
    known = tail.stable is not None and tail.end is not None
    return Hold(
        topic=place.topic,
        partition=place.partition,
        first_offset=first,
        last_stable_offset=tail.stable,
        end_offset=tail.end,
        held_back=max(0, (tail.end or 0) - (tail.stable or 0)) if known else None,
        holds=None if tail.open_from is None or not known else first == tail.stable,
        last_sequence=None if tail.sequences is None else tail.sequences.get(producer_id, -1),
    )


def tails(wire: Wire, places: Iterable[TopicPartition]) -> dict[TopicPartition, Tail]:
    """Return the end of each partition as far as its leader tells it."""
    wanted = set(places)
    if not wanted:
        return {}
    found: dict[TopicPartition, Tail] = dict.fromkeys(wanted, Tail())
    metadata = wire.ask_until_answered(lambda: leaders_request({place.topic for place in wanted}))
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for place, leader in leaders_in(metadata).items():
        if place in wanted:
            by_leader[leader].append(place)
    for leader, led in by_leader.items():
        # In this order: what is written meanwhile makes a hold look larger, never negative.
        stable = _offsets(wire, leader, led, committed=True)
        producers = _producers(wire, leader, led)
        end = _offsets(wire, leader, led, committed=False)
        for place in led:
            rows = producers.get(place)
            found[place] = Tail(
                stable.get(place),
                end.get(place),
                None if rows is None else _open_from(rows),
                None if rows is None else {row.producer_id: row.last_sequence for row in rows},
            )
    return found


def _open_from(rows: Iterable[Any]) -> dict[int, int]:
    return {
        row.producer_id: row.current_txn_start_offset
        for row in rows
        if row.current_txn_start_offset != _NOTHING_OPEN
    }


def _offsets(
    wire: Wire, leader: int, places: list[TopicPartition], *, committed: bool
) -> dict[TopicPartition, int]:
    answer = _answer(wire, latest_request(_by_topic(places), committed=committed), leader)
    return {
        TopicPartition(topic.name, row.partition_index): row.offset
        for topic in (answer.topics if answer else ())
        for row in topic.partitions
        if not row.error_code
    }


def _producers(
    wire: Wire, leader: int, places: list[TopicPartition]
) -> dict[TopicPartition, list[Any]]:
    topic_of = DescribeProducersRequest.TopicRequest
    request = DescribeProducersRequest(
        topics=[topic_of(name=name, partition_indexes=p) for name, p in _by_topic(places).items()]
    )
    answer = _answer(wire, request, leader)
    return {
        TopicPartition(topic.name, row.partition_index): row.active_producers
        for topic in (answer.topics if answer else ())
        for row in topic.partitions
        if not row.error_code
    }


def _answer(wire: Wire, request: Any, leader: int) -> Any:
    try:
        return wire.ask(request, leader)
    except (StoreUnavailable, AccessDenied, ConfigurationError):
        return None


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(places):
        found[topic].append(partition)
    return found
