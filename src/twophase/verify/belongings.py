"""What a verification makes in a cluster: named beforehand, and taken away in the end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final
from uuid import uuid4

from twophase.commit.naming import PREFIX
from twophase.errors import AccessDenied, ConfigurationError, TwoPhaseError
from twophase.kafka.groups import delete_group, list_groups
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire
from twophase.verify.topics import delete_topics, topics_of

_BEGINS: Final = "twophase-verify-"
Say = Callable[[str], None]


class Belongings:
    """Topics under a prefix that nobody else has, and the marker groups of sinks that write them.

    Nothing else is ever deleted. The transactional ids cannot be: brokers forget them by
    themselves, after transactional.id.expiration.ms.
    """

    def __init__(self, options: KafkaOptions, suffixes: Sequence[str]) -> None:
        self.prefix = f"{_BEGINS}{uuid4().hex[:8]}"
        self.topics = tuple(f"{self.prefix}-{suffix}" for suffix in suffixes)
        self.left: tuple[str, ...] = ()
        self._options = options

    def check(self) -> None:
        """Refuse to begin where a topic of such a name is there already: it is not ours."""
        # It says sooner and better than an administrator's client that nobody answers.
        Wire(self._options).close()
        if taken := sorted(topics_of(self._options) & set(self.topics)):
            raise ConfigurationError(f"topic {taken[0]} is there already; try again")

    def delete(self) -> None:
        """Delete all that may be deleted; `left` is what could not be, and is raised for."""
        groups = f"{PREFIX}{self.prefix}-*"
        self.left = (*self.topics, groups)
        denied: list[AccessDenied] = []
        for topic in self.topics:
            self._try(partial(delete_topics, self._options, [topic]), topic, denied)
        with Wire(self._options) as wire:
            found = list_groups(wire, groups.removesuffix("*"))
            self.left = (*self.left[:-1], *found)
            for group in found:
                self._try(partial(delete_group, wire, group), group, denied)
        if denied:
            raise denied[0]

    def _try(self, delete: Callable[[], None], name: str, denied: list[AccessDenied]) -> None:
        try:
            delete()
        except AccessDenied as error:
            # The rest may be ours to delete all the same.
            denied.append(error)
        else:
            self.left = tuple(each for each in self.left if each != name)


@contextmanager
def belongings(options: KafkaOptions, suffixes: Sequence[str], say: Say) -> Iterator[Belongings]:
    """Name what will be made, and delete it in the end, however that comes."""
    own = Belongings(options, suffixes)
    own.check()
    say(f"prefix {own.prefix}: makes the topics {', '.join(own.topics)}, deleted at the end")
    try:
        yield own
    finally:
        try:
            own.delete()
        except TwoPhaseError as error:
            say(f"left behind: {', '.join(own.left) or own.prefix}; delete it by hand: {error}")
        except KeyboardInterrupt:
            say(f"left behind: {', '.join(own.left) or own.prefix}; delete it by hand")
            raise
