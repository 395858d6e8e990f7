"""Settings of `KafkaSink` that do not fit the others: refused, or told to be without effect."""

import functools
import logging

from twophase.commit.naming import PREFIX
from twophase.errors import ConfigurationError
from twophase.guarantee import Guarantee
from twophase.kafka.options import KafkaOptions

_log = logging.getLogger("twophase")


def checked_group(group: str | None, guarantee: Guarantee) -> str | None:
    """Return the group for the source's offsets, or refuse one that cannot be."""
    if group is None:
        return None
    if guarantee is not Guarantee.EXACTLY_ONCE:
        raise ConfigurationError(
            f"source_group is given with the guarantee {guarantee}; offsets go into the "
            "transaction of exactly-once only"
        )
    if not group or group.startswith(PREFIX):
        raise ConfigurationError(
            f"source_group is {group!r}; allowed is the name of a consumer group that does not "
            f"begin with {PREFIX}, which are the markers"
        )
    return group


def tell_unused(guarantee: Guarantee, options: KafkaOptions, **given: object) -> None:
    """Warn of what a sink with this guarantee was given in vain.

    `given` are its settings for transactions, with None for those that were not given.
    """
    if guarantee is Guarantee.EXACTLY_ONCE:
        return
    if names := [*_named(given), *options.for_transactions]:
        _log.warning(
            "settings without effect with the guarantee %s, which has no transaction: %s",
            *(guarantee.value, ", ".join(names)),
        )


def tell_unused_in_job(sink_id: str, **given: object) -> None:
    """Warn, once in this process, of settings that are for a streaming query only."""
    if names := _named(given):
        _warn_once(f"settings of sink {sink_id} without effect in a batch job: {', '.join(names)}")


def _named(given: dict[str, object]) -> list[str]:
    return [name for name, value in given.items() if value is not None]


@functools.cache
def _warn_once(said: str) -> None:
    _log.warning("%s", said)
