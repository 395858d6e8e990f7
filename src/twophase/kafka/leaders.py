"""Which node leads which partition, asked for again whenever an answer says otherwise."""

from collections.abc import Container, Iterable, Mapping
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from twophase.errors import AccessDenied, ConfigurationError, StoreUnavailable
from twophase.kafka.answers import name_of
from twophase.kafka.identity import TopicPartition
from twophase.kafka.rights import missing

_LEADER_UNKNOWN = -1
_UNKNOWN_TOPIC = 3
_INVALID_TOPIC = 17
_ACCESS_DENIED = 29


def leaders_request(topics: Iterable[str]) -> Any:
    """Return a Metadata request for the named topics that creates none of them."""
    topic = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=[topic(name=name) for name in sorted(set(topics))], allow_auto_topic_creation=False
    )


def leaders_in(answer: Any) -> dict[TopicPartition, int]:
    """Return the leaders that a Metadata answer knows, leaving out partitions without one."""
    return {
        TopicPartition(topic.name, partition.partition_index): partition.leader_id
        for topic in answer.topics
        if topic.error_code == 0
        for partition in topic.partitions
        if partition.leader_id != _LEADER_UNKNOWN
    }


def check_described(answer: Any) -> None:
    """Raise where a topic of a Metadata answer may not be described; waiting would not help."""
    for topic in answer.topics:
        if topic.error_code == _ACCESS_DENIED:
            right = missing("Metadata", topic.error_code, [topic.name])
            raise AccessDenied(f"topic {topic.name!r} may not be described: {right}")


def topic_ids_in(answer: Any) -> dict[str, Any]:
    """Return the id of each topic that a Metadata answer knows: made anew, a topic has another."""
    return {topic.name: topic.topic_id for topic in answer.topics if topic.error_code == 0}


def partition_counts_in(answer: Any, optional: Container[str] = ()) -> Mapping[str, int]:
    """Return how many partitions each topic of a Metadata answer has; raise for one without.

    Those that are `optional` are left out where they do not exist.
    """
    check_described(answer)
    counts = {}
    for topic in answer.topics:
        if topic.error_code in {_UNKNOWN_TOPIC, _INVALID_TOPIC} and topic.name in optional:
            continue
        if topic.error_code == _UNKNOWN_TOPIC:
            raise ConfigurationError(
                f"topic {topic.name!r} does not exist on this cluster; create it first"
            )
        if topic.error_code == _INVALID_TOPIC:
            raise ConfigurationError(f"topic {topic.name!r} is not a valid topic name")
        if topic.error_code:
            raise StoreUnavailable(f"topic {topic.name!r}: {name_of(topic.error_code)}")
        counts[topic.name] = len(topic.partitions)
    return counts
