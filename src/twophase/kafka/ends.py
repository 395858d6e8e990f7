"""Where a topic's log ends, for readers of either kind: what its leaders say now."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.consumer import ListOffsetsRequest

from twophase.errors import StoreUnavailable
from twophase.kafka.answers import name_of
from twophase.kafka.leaders import leaders_in, leaders_request, partition_counts_in
from twophase.kafka.wire import Wire

_LATEST: Final = -1


def end_offsets(wire: Wire, topic: str, *, committed: bool = False) -> dict[int, int]:
    """Return the end of each partition; raise where one has no leader that answers.

    With `committed` that is where a read_committed reader must stop.
    """
    metadata = wire.ask(leaders_request([topic]))
    count = partition_counts_in(metadata)[topic]
    by_leader: dict[int, list[int]] = defaultdict(list)
    for (_, partition), leader in leaders_in(metadata).items():
        by_leader[leader].append(partition)
    found: dict[int, int] = {}
    for leader, partitions in by_leader.items():
        answer = wire.ask(latest_request({topic: partitions}, committed=committed), leader)
        for row in answer.topics[0].partitions:
            if row.error_code:
                raise StoreUnavailable(f"{topic}: {name_of(row.error_code)}")
            found[row.partition_index] = row.offset
    if len(found) != count:
        raise StoreUnavailable(f"{topic} has {count} partitions and leaders for {sorted(found)}")
    return found


def latest_request(wanted: Mapping[str, list[int]], *, committed: bool) -> Any:
    """Return a request for the ends of partitions, by topic, to the node that leads them."""
    topic_of = ListOffsetsRequest.ListOffsetsTopic
    partition_of = topic_of.ListOffsetsPartition
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=[
            topic_of(
                name=topic,
                partitions=[
                    partition_of(partition_index=at, current_leader_epoch=-1, timestamp=_LATEST)
                    for at in partitions
                ],
            )
            for topic, partitions in wanted.items()
        ],
        # The first that knows isolation levels.
        min_version=2,
    )
