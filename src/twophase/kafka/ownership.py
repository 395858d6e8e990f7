"""Who writes under a sink id in task scope: the marker of its query, and the epochs of its drivers.

The decision log keeps two drivers of one query apart. A second query has a log of its own, and only
the brokers can tell it that the sink id is taken. So every start writes the sink's marker, in a
transaction of the sink's own transactional id, as batch scope does: of two that start at once, one
is fenced. A driver at work writes it again every hour: Kafka drops what is a week old. Nothing
of a batch is in it.
"""

import json
from collections.abc import Sequence
from typing import Final

from twophase.commit.effects import WriteMarker
from twophase.commit.marker import Marker, Unreadable, read_marker
from twophase.commit.naming import SinkName
from twophase.commit.refusals import TASK_SCOPE
from twophase.errors import (
    EpochStale,
    Fenced,
    InvalidState,
    MarkerUnreadable,
    OwnedByAnother,
)
from twophase.kafka.groups import offsets_of_group
from twophase.kafka.identity import TopicPartition
from twophase.kafka.offsets import CommittedOffset, read_offsets, write_offsets
from twophase.kafka.store import KafkaStore
from twophase.kafka.wire import Wire

# How many drivers' names can be guessed; what older ones left has long been ended by its timeout.
_DRIVERS_KEPT: Final = 20


def drivers_group(name: SinkName) -> str:
    """Return the group that notes which drivers a sink has had."""
    # "/" is in no id: no sink has a marker of this name.
    return f"{name.marker_group}//drivers"


class Ownership:
    """The marker of one sink, or of one run of a batch job."""

    def __init__(self, wire: Wire, name: SinkName, marker_topic: str) -> None:
        self._wire, self._name = wire, name
        self._topic = marker_topic
        self._place = TopicPartition(marker_topic, 0)

    def take(self, owner: str, epoch: int, *, again: bool = False) -> None:
        """Note owner and driver; refuse where another query is noted, or a later driver.

        `again`: this driver has noted itself before. Kafka drops offsets that nobody renews.
        """
        # Before the id is taken, by what is committed: who has no right must not stop who has.
        self._check(self._committed(), owner)
        store = KafkaStore(self._wire, self._name, self._topic)
        try:
            store.describe_last()
            identity, _ = store.own()
            self._check(store.read_marker(), owner)
            # Read after the id was taken: whoever started before has noted its epoch, or is fenced.
            before = [each for each in self.epochs() if not (again and each == epoch)]
            epochs = [*before, epoch]
            if epoch < max(epochs) or len(set(epochs)) < len(epochs):
                raise Fenced(
                    f"a driver of the sink {self._name.sink_id} has started with epoch "
                    f"{max(epochs)}, and this one has {epoch}: it came first, or has another log "
                    "and a clock that is behind; start again, with one driver only",
                    epoch=epoch,
                )
            drivers = {self._place: CommittedOffset(0, json.dumps(epochs[-_DRIVERS_KEPT:]))}
            write_offsets(self._wire, identity, self._group, drivers)
            store.write_marker(identity, WriteMarker(identity, owner + TASK_SCOPE, -1, "", 0, 0))
            store.commit(identity)
        except (EpochStale, InvalidState) as error:
            raise Fenced("another driver has started at the same moment", **error.ids) from error

    def epochs(self) -> Sequence[int]:
        """Return the epochs of the last drivers."""
        found = read_offsets(self._wire, self._group, [self._place]).get(self._place)
        try:
            epochs = json.loads(found.metadata) if found is not None else []
        except ValueError:
            return []
        return [each for each in epochs if isinstance(each, int)] if epochs else []

    @property
    def _group(self) -> str:
        return drivers_group(self._name)

    def _committed(self) -> Marker | Unreadable | None:
        """Return the marker as it was committed last, whatever is open."""
        group = offsets_of_group(self._wire, self._name.marker_group, stable=False)
        found = group.get(self._place)
        return None if found is None else read_marker(found.metadata, found.offset)

    def _check(self, found: Marker | Unreadable | None, owner: str) -> None:
        if isinstance(found, Unreadable):
            raise MarkerUnreadable(
                f"the marker of sink {self._name.sink_id} in {self._topic} is no marker "
                f"({found.why}); look with `twophase sinks show {self._name.sink_id}`"
            )
        if found is not None and found.owner != owner + TASK_SCOPE:
            raise OwnedByAnother(
                f"the sink id {self._name.sink_id} belongs to query {found.owner} on this cluster, "
                f"and this is {owner}{TASK_SCOPE}: each would end the other's transactions; give "
                "this one a sink_id of its own; or, if the other is stopped for good, run "
                f"`twophase sinks reset {self._name.sink_id}` and start again"
            )
