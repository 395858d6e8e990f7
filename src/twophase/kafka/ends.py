"""Where a topic's log ends, committed or not: what its leaders say now."""

from collections import defaultdict
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from twophase.errors import StoreUnavailable
from twophase.kafka.answers import name_of
from twophase.kafka.leaders import leaders_in, leaders_request, partition_counts_in
from twophase.kafka.wire import Wire

_LATEST: Final = -1
_READ_UNCOMMITTED: Final = 0


def end_offsets(wire: Wire, topic: str) -> dict[int, int]:
    """Return the end of each partition; raise where one has no leader that answers."""
    metadata = wire.ask(leaders_request([topic]))
    count = partition_counts_in(metadata)[topic]
    by_leader: dict[int, list[int]] = defaultdict(list)
    for (_, partition), leader in leaders_in(metadata).items():
        by_leader[leader].append(partition)
    found: dict[int, int] = {}
    for leader, partitions in by_leader.items():
        answer = wire.ask(_request(topic, partitions), leader)
        for row in answer.topics[0].partitions:
            if row.error_code:
                raise StoreUnavailable(f"{topic}: {name_of(row.error_code)}")
            found[row.partition_index] = row.offset
    if len(found) != count:
        raise StoreUnavailable(f"{topic} has {count} partitions and leaders for {sorted(found)}")
    return found


def _request(topic: str, partitions: list[int]) -> Any:
    topic_of = ListOffsetsRequest.ListOffsetsTopic
    partition_of = topic_of.ListOffsetsPartition
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=_READ_UNCOMMITTED,
        topics=[
            topic_of(
                name=topic,
                partitions=[
                    partition_of(partition_index=at, current_leader_epoch=-1, timestamp=_LATEST)
                    for at in partitions
                ],
            )
        ],
        min_version=1,
    )
