"""The choice of what becomes of rows that no retry can write: fail the batch, or a topic for them.

Which rows these are, and which troubles stay an error of the batch, is in docs/dead-letters.md.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from twophase.errors import BlockRefused, ConfigurationError
from twophase.options import one_of

_LENGTH_MAX: Final = 249
# Kafka's own, which no producer may write to.
_INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_UNEXPLAINED: Final = "the topic's settings do not tell which row it is, or may not be read"
TOPIC_NAMES: Final = (
    f"1 to {_LENGTH_MAX} letters, digits and . _ -, but not . or .. or a topic of Kafka's"
)


class OnReject(StrEnum):
    """What to do with a row that no retry can write."""

    FAIL = "fail"
    DEAD_LETTER = "dead-letter"

    @classmethod
    def parse(cls, value: object) -> "OnReject":
        """Read the user's choice."""
        return one_of(cls, "on_reject", value)


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The topic of such rows, and what is said there of the batch that they were in.

    `strict` says that a broker has refused a block of this sink: rows are then held against the
    settings of their topics too.
    """

    topic: str
    sink_id: str
    batch: int
    run_id: str | None = None
    strict: bool = False


def is_topic_name(name: str) -> bool:
    """Whether Kafka would take it for the name of a topic to write to."""
    if name in {".", "..", *_INTERNAL}:
        return False
    return len(name) <= _LENGTH_MAX and bool(_NAME.fullmatch(name))


def checked_rejects(on_reject: object, dead_letter_topic: object, topic: str | None) -> str | None:
    """Return the dead-letter topic, None where the batch is to fail; refuse what does not fit."""
    if OnReject.parse(on_reject) is OnReject.FAIL:
        if dead_letter_topic is not None:
            raise ConfigurationError(
                f"dead_letter_topic is {dead_letter_topic!r}, and on_reject is fail: nothing would "
                'be written to it; give on_reject="dead-letter" with it, or leave it out'
            )
        return None
    if dead_letter_topic is None:
        raise ConfigurationError(
            "on_reject is dead-letter, and no dead_letter_topic is given; name a topic for the "
            "rows that cannot be written, which exists"
        )
    if not isinstance(dead_letter_topic, str) or not is_topic_name(dead_letter_topic):
        raise ConfigurationError(
            f"dead_letter_topic is {dead_letter_topic!r}; allowed are {TOPIC_NAMES}"
        )
    if dead_letter_topic == topic:
        raise ConfigurationError(
            f"dead_letter_topic is {dead_letter_topic!r}, which is the sink's own topic; readers "
            "could not tell the rows apart; name another one"
        )
    return dead_letter_topic


def stricter(dead: DeadLetters | None, refused: BlockRefused) -> DeadLetters:
    """Return how to write the rows again of which a broker has refused some; raise if no way helps.

    The refusal is of a block. Which of its rows it is about, the settings of their topic tell.
    """
    if dead is None:
        raise refused
    if dead.strict:
        raise BlockRefused(
            f"{refused.message}; {_UNEXPLAINED}: grant DESCRIBE_CONFIGS on the topic",
            **refused.ids,
        ) from refused
    return replace(dead, strict=True)


def is_unexplained(refused: BlockRefused) -> bool:
    """Whether rows were held against their topics' settings in vain; tasks hand on only a text."""
    return _UNEXPLAINED in refused.message
