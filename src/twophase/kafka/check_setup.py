"""What a sink will be given, as far as a check depends on it, and what it will use."""

from dataclasses import dataclass
from typing import Self

from twophase.commit.attempts import prefix_of
from twophase.commit.naming import PREFIX, SinkName
from twophase.errors import ConfigurationError
from twophase.guarantee import Guarantee
from twophase.kafka.dead_letters import OnReject, checked_rejects
from twophase.kafka.lingering import driver_base
from twophase.kafka.needs import Need, needs_of
from twophase.kafka.ownership import drivers_group
from twophase.kafka.rights import GROUP, TOPIC, TRANSACTIONAL_ID


@dataclass(frozen=True, slots=True)
class Setup:
    """One sink, or one run of a batch job; the names are those of KafkaSink's arguments."""

    name: SinkName
    topic: str
    marker_topic: str
    by_task: bool = False
    dead_letter_topic: str | None = None
    source_group: str | None = None
    source_topics: tuple[str, ...] = ()
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE

    @classmethod
    def of(
        cls,
        name: SinkName,
        topic: str,
        *,
        marker_topic: str | None = None,
        by_task: bool = False,
        dead_letter_topic: str | None = None,
        source_group: str | None = None,
        source_topics: tuple[str, ...] = (),
        guarantee: str = Guarantee.EXACTLY_ONCE,
    ) -> Self:
        """Return the setup, or refuse what the sink would refuse or have no use for."""
        promised = Guarantee.parse(guarantee)
        if promised is not Guarantee.EXACTLY_ONCE:
            given = {
                'scope="task"': by_task,
                "marker_topic": marker_topic is not None,
                "source_group": source_group is not None,
            }
            _check_plain(promised, [name for name, wrong in given.items() if wrong])
        if dead_letter_topic is not None:
            checked_rejects(OnReject.DEAD_LETTER.value, dead_letter_topic, topic)
        _check_source(name, source_group, source_topics, by_task=by_task)
        return cls(
            name,
            topic,
            topic if marker_topic is None else marker_topic,
            by_task,
            dead_letter_topic,
            source_group,
            tuple(dict.fromkeys(source_topics)),
            promised,
        )

    @property
    def transactional(self) -> bool:
        """Whether there are transactions and a marker."""
        return self.guarantee is Guarantee.EXACTLY_ONCE

    @property
    def fate(self) -> str:
        """What becomes of rows that cannot be written, as the rest of a sentence."""
        if self.guarantee is Guarantee.NONE:
            return "is given up, and its rows are counted"
        return "fails its batch"

    @property
    def written(self) -> tuple[str, ...]:
        """The topics that rows go to."""
        return (self.topic, *_given(self.dead_letter_topic))

    def used(self, kind: str) -> tuple[str, ...]:
        """Return the resources of a kind that the sink will ask for, each once.

        Of its tasks' ids, of which there is no end, one that no driver ever has stands for all.
        """
        if not self.transactional:
            return tuple(dict.fromkeys(self.written)) if kind == TOPIC else ()
        own = self.name.transactional_id
        found = {
            TOPIC: (*self.written, self.marker_topic, *self.source_topics),
            GROUP: (
                self.name.marker_group,
                *_given(drivers_group(self.name) if self.by_task else None),
                *_given(self.source_group),
            ),
            TRANSACTIONAL_ID: (
                own,
                *_given(f"{driver_base(prefix_of(self.name), 0)}1" if self.by_task else None),
            ),
        }
        return tuple(dict.fromkeys(found[kind]))

    def needs(self) -> tuple[Need, ...]:
        """Return every right that the sink needs."""
        section = "task scope" if self.by_task else "batch scope"
        if self.name.run_id is not None:
            section = "batch job"
        if not self.transactional:
            section = "at-least-once"
        needs = needs_of(
            section, topic=self.topic, marker=self.marker_topic, sink=self.name.sink_id
        )
        if self.dead_letter_topic is not None:
            needs += needs_of("dead letters", letters=self.dead_letter_topic)
        if self.source_group is not None:
            # Without a topic of the source, those of its group.
            for source in self.source_topics or ("",):
                needs += needs_of("source", source=source, group=self.source_group)
        return tuple(dict.fromkeys(need for need in needs if need.name))


def _given(value: str | None) -> tuple[str, ...]:
    return () if value is None else (value,)


def _check_plain(guarantee: Guarantee, given: list[str]) -> None:
    if given:
        raise ConfigurationError(
            f"{' and '.join(given)} is given with the guarantee {guarantee}, which has no "
            "transaction and no marker; leave it out"
        )


def _check_source(
    name: SinkName, group: str | None, topics: tuple[str, ...], *, by_task: bool
) -> None:
    if group is None:
        if topics:
            raise ConfigurationError(
                f"source_topic is {topics[0]!r}, and no source_group is given: a sink without one "
                "needs no right on what the query reads; give --source-group, or leave it out"
            )
        return
    if by_task or name.run_id is not None:
        where = "in a batch job" if name.run_id is not None else 'with scope="task"'
        raise ConfigurationError(
            f"source_group is {group!r} {where}; offsets go into the one transaction of a "
            "streaming query's batch only; leave source_group out"
        )
    if not group or group.startswith(PREFIX):
        raise ConfigurationError(
            f"source_group is {group!r}; allowed is the name of a consumer group that does not "
            f"begin with {PREFIX}, which are the markers"
        )
