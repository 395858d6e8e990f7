"""What a topic's own settings demand of rows, read once a broker has refused some."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from twophase.kafka.fitness import Settings, sure_topic_settings
from twophase.kafka.wire import Wire
from twophase.options import LONG_MAX

_SIZES: Final = ("max.message.bytes", "segment.bytes")
_TIME: Final = "message.timestamp."
_DIFFERENCE: Final = f"{_TIME}difference.max.ms"
_KEYS: Final = (
    *_SIZES,
    "cleanup.policy",
    f"{_TIME}type",
    f"{_TIME}before.max.ms",
    f"{_TIME}after.max.ms",
    _DIFFERENCE,
)
# Clocks differ, and between the check and the broker's own lies the time until a row is sent.
_MARGIN_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class TopicRule:
    """The largest block, how old and how far ahead a row may be, and whether it needs a key.

    None is no bound, or one that this user may not read.
    """

    block_bytes: int | None = None
    before_ms: int | None = None
    after_ms: int | None = None
    key_needed: bool = False


NO_RULE: Final = TopicRule()


class TopicRules(Mapping[str, TopicRule]):
    """The rules of topics, each asked for when a row first names it."""

    def __init__(self, connect: Callable[[], Wire]) -> None:
        self._connect = connect
        self._found: dict[str, TopicRule] = {}

    def __getitem__(self, topic: str) -> TopicRule:
        if topic not in self._found:
            self._found[topic] = rule_in(sure_topic_settings(self._connect(), topic, _KEYS))
        return self._found[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def rule_in(settings: Settings | None) -> TopicRule:
    """Return what a topic's settings say; no rule where they may not be read."""
    if settings is None:
        return NO_RULE
    sizes = [int(found) for key in _SIZES if (found := settings.get(key)) is not None]
    own_time = settings.get(f"{_TIME}type") == "CreateTime"
    return TopicRule(
        block_bytes=min(sizes, default=None),
        before_ms=_bound(settings, "before.max.ms") if own_time else None,
        after_ms=_bound(settings, "after.max.ms") if own_time else None,
        # A compacted topic keeps the last row of each key, and refuses rows without one.
        key_needed="compact" in (settings.get("cleanup.policy") or ""),
    )


def _bound(settings: Settings, name: str) -> int | None:
    """Return a bound on the age of rows with room for clocks; before Kafka 4 two may say it."""
    said = [settings.get(_TIME + name), settings.get(_DIFFERENCE)]
    known = [int(found) for found in said if found is not None and int(found) < LONG_MAX]
    return max(known[0] - _MARGIN_MS, known[0] // 2) if known else None
