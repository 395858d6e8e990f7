"""What the encoder needs to know besides the rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from twophase.errors import ConfigurationError
from twophase.kafka.compression import Codec, check_level
from twophase.kafka.dead_letters import DeadLetters
from twophase.kafka.options import KafkaOptions
from twophase.kafka.topic_rules import NO_RULE, TopicRule, TopicRules
from twophase.kafka.wire import Wire

# Arrow's 32-bit offsets and Kafka's 32-bit lengths both end at 2 GB; half of it is never close.
_MOST_BYTES = 2**30
# Kafka's default of max.message.bytes, for a topic whose settings may not be read.
_BLOCK_BYTES_USUAL: Final = 1_048_588
_WINDOW_BYTES_MIN: Final = 8 * 2**20
_WINDOW_BYTES_MAX: Final = 32 * 2**20
# A broker works as long on a small block as on one of this size: with many partitions windows grow,
# so that a block of each does not get smaller.
_BLOCK_BYTES_ENOUGH: Final = 2**19
# A broker reads no request above socket.request.max.bytes, 100 MB by default, and says nothing.
_LETTER_BYTES_MAX: Final = 95_000_000


@dataclass(frozen=True, slots=True)
class EncodePlan:
    """Where rows go and how they are packed; checked once, before any row is read.

    `partitions` gives the number of partitions of every topic that may be written to; it may look
    them up when asked. A block's uncompressed size stays within `block_bytes` unless it holds one
    row only. A row is refused above `record_limit_bytes`, measured as Java measures it.

    Rows are worked on in windows that weigh at most `window_bytes`, where a row weighs its bytes
    and 48 more; blocks do not span windows. Besides the rows given and the blocks handed out,
    encoding takes at most twice the weight of a window, and 24 MB. A window that is not given is as
    small as the blocks allow: one that fits into a processor's cache is worked on faster.

    With `dead` a row that cannot be written becomes a row of the dead-letter topic, which is among
    `partitions`; without, it is raised. `rules` are what topics demand by their own settings; they
    are held against rows where `strict`.
    """

    partitions: Mapping[str, int]
    topic: str | None = None
    codec: Codec = Codec.NONE
    level: int | None = None
    block_bytes: int = 1_000_000
    record_limit_bytes: int = 1_048_576
    window_bytes: int | None = None
    dead: DeadLetters | None = None
    rules: Mapping[str, TopicRule] = field(default_factory=dict)
    strict: bool = False

    def __post_init__(self) -> None:
        check_level(self.codec, self.level)
        for name in ("block_bytes", "record_limit_bytes", "window_bytes"):
            found = getattr(self, name)
            if found is not None and not 0 < found <= _MOST_BYTES:
                raise ConfigurationError(f"{name} is {found}; allowed are 1 to {_MOST_BYTES}")
        if self.topic is not None and self.topic not in self.partitions:
            raise ConfigurationError(f"topic {self.topic!r} has no known number of partitions")
        for topic, count in self.partitions.items():
            if count < 1:
                raise ConfigurationError(f"topic {topic!r} has {count} partitions; it needs one")

    @property
    def window(self) -> int:
        """What a window weighs at most."""
        if self.window_bytes is not None:
            return self.window_bytes
        if self.topic is None:
            return _WINDOW_BYTES_MAX
        blocks = self.partitions[self.topic] * min(self.block_bytes, _BLOCK_BYTES_ENOUGH)
        least = max(_WINDOW_BYTES_MIN, 2 * self.block_bytes)
        return min(max(least, blocks), _WINDOW_BYTES_MAX)

    def rule(self, topic: str) -> TopicRule:
        """Return what is demanded of the rows of a topic beside what Kafka demands of all."""
        return self.rules.get(topic, NO_RULE) if self.strict else NO_RULE

    def for_letters(self, dead: DeadLetters) -> "EncodePlan":
        """Return the plan of the dead-letter topic: rows as large as it takes, and no larger."""
        rule = self.rules.get(dead.topic, NO_RULE)
        if rule.key_needed:
            raise ConfigurationError(
                f"dead_letter_topic {dead.topic!r} is compacted; of letters with one key it would "
                "keep the last one only, and take none without a key: set its cleanup.policy to "
                "delete"
            )
        limit = min(rule.block_bytes or _BLOCK_BYTES_USUAL, _LETTER_BYTES_MAX)
        return replace(
            self,
            topic=dead.topic,
            partitions={dead.topic: self.partitions[dead.topic]},
            record_limit_bytes=_MOST_BYTES,
            dead=None,
            rules={dead.topic: TopicRule(block_bytes=limit)},
            strict=True,
        )


def plan_for(
    options: KafkaOptions,
    topic: str | None,
    partitions: Mapping[str, int],
    *,
    dead: DeadLetters | None = None,
    connect: Callable[[], Wire] | None = None,
) -> EncodePlan:
    """Return the plan that a sink's options ask for; `dead` may have to ask the brokers."""
    return EncodePlan(
        partitions,
        topic=topic,
        codec=Codec.named(options.compression),
        level=options.compression_level,
        block_bytes=min(options.block_bytes, options.max_request_bytes),
        record_limit_bytes=options.max_request_bytes,
        dead=dead,
        rules={} if connect is None else TopicRules(connect),
        strict=dead is not None and dead.strict,
    )
