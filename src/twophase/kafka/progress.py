"""What a checkpoint's `offsets/N` says about Kafka sources: how far each partition was read."""

import json
from collections.abc import Mapping
from typing import Any

from twophase.kafka.identity import TopicPartition

_VERSION = "v1"
_BEFORE_SOURCES = 2
_IDLE = "-"

Progress = Mapping[TopicPartition, int]


def progress_in(content: bytes) -> Progress:
    """Return the end offset of each partition of the Kafka sources; other sources are left out.

    The file holds a version, a line about the batch, and one line of JSON per source, of which only
    Kafka's maps topics to partitions to offsets. Where two sources read one partition, the group's
    progress is that of the slower one.
    """
    version, *lines = content.decode("utf-8", "replace").splitlines() or [""]
    found: dict[TopicPartition, int] = {}
    if version != _VERSION:
        return found
    for line in lines[_BEFORE_SOURCES - 1 :]:
        for place, offset in _kafka_source(line).items():
            found[place] = min(offset, found.get(place, offset))
    return found


def has_idle_source(content: bytes) -> bool:
    """Whether a source has no offset yet, so that nobody can tell of which kind it is."""
    return _IDLE in content.decode("utf-8", "replace").splitlines()[_BEFORE_SOURCES:]


def rows_between(before: Progress, now: Progress) -> int | None:
    """Return about how many rows lie between, or None where that cannot be told.

    It counts offsets: aborted rows and the ends of transactions are among them.
    """
    if not now or not set(now) <= set(before):
        return None
    return sum(max(0, offset - before[place]) for place, offset in now.items())


def _kafka_source(line: str) -> dict[TopicPartition, int]:
    try:
        content: Any = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(content, dict):
        return {}
    found = {}
    for topic, partitions in content.items():
        if not isinstance(partitions, dict):
            return {}
        for partition, offset in partitions.items():
            if not partition.isdigit() or not isinstance(offset, int):
                return {}
            found[TopicPartition(topic, int(partition))] = offset
    return found
