"""Which batch each input row belongs to, from the source offsets that Spark planned."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np

from twophase.errors import ConfigurationError
from twophase.kafka.identity import TopicPartition
from twophase.kafka.progress import Progress, progress_in
from twophase.verify.rows import Input
from twophase.verify.seen import Longs, Numbers, Seen

# A row that no batch has planned yet.
NO_BATCH: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """`of_row[n]` is the batch of input row n, or NO_BATCH."""

    of_row: Numbers

    @classmethod
    def by_offsets(cls, of: Input, source: Seen, ends: Mapping[int, Mapping[int, int]]) -> Self:
        """Return the batches that read each source partition up to these ends.

        `source` is the source topic as it was read back, in which every row may stand once only:
        of a row that stands there twice nobody could say which batch it belongs to.
        """
        numbers = sorted(ends)
        of_row = np.full(of.rows, NO_BATCH, np.int32)
        filled = np.zeros(of.rows, np.bool_)
        labels = np.array([*numbers, NO_BATCH], np.int32)
        for partition, places in source.partitions.items():
            known = places.numbers >= 0
            found = places.numbers[known]
            distinct = len(np.unique(found))
            if distinct < len(found) or filled[found].any():
                raise ConfigurationError(
                    f"partition {partition} of the source holds rows that the source has twice; "
                    "fill a new topic, once"
                )
            filled[found] = True
            steps = _rising([ends[number].get(partition, 0) for number in numbers], partition)
            at = np.searchsorted(steps, places.offsets[known], side="right")
            of_row[found] = labels[at]
        return cls(of_row)


def planned(checkpoint: Path, topic: str) -> dict[int, dict[int, int]]:
    """Return how far each batch of a checkpoint reads each partition of a source topic."""
    folder = checkpoint / "offsets"
    found = {
        int(path.name): _of_topic(progress_in(path.read_bytes()), topic)
        for path in folder.iterdir()
        if path.name.isdigit()
    }
    if not any(found.values()):
        raise ConfigurationError(
            f"{folder} plans no batch that reads topic {topic!r}; give the checkpoint of the query "
            "that reads it"
        )
    return found


def planned_ends(checkpoint: Path, topic: str, batch: int) -> dict[int, int] | None:
    """Return how far one batch reads each partition of a source topic; None if not planned."""
    path = checkpoint / "offsets" / str(batch)
    return _of_topic(progress_in(path.read_bytes()), topic) if path.exists() else None


def _of_topic(progress: Progress, topic: str) -> dict[int, int]:
    return {
        place.partition: end
        for place, end in progress.items()
        if isinstance(place, TopicPartition) and place.topic == topic
    }


def _rising(ends: list[int], partition: int) -> Longs:
    steps = np.array(ends, np.int64)
    if (np.diff(steps) < 0).any():
        raise ConfigurationError(
            f"the planned ends of source partition {partition} go back: {ends[:20]}; a later batch "
            "cannot end before an earlier one"
        )
    return steps
