"""Whether the brokers can keep the promise, as far as they let their settings be read.

Before Kafka 3.6.1, or with partition verification off, a late Produce of a dead driver may join the
next transaction under protocol version 1, and be committed with it. Version 2 has no such hole, as
each transaction has an epoch of its own.
"""

import logging
from collections.abc import Sequence
from typing import Any, Final

from kafka.protocol.admin.configs import DescribeConfigsRequest

from twophase.errors import ConfigurationError, StoreUnavailable
from twophase.kafka.answers import name_of
from twophase.kafka.identity import TransactionVersion
from twophase.kafka.rights import DENIED
from twophase.kafka.wire import Wire

_log = logging.getLogger("twophase")

VERIFICATION: Final = "transaction.partition.verification.enable"
TIMEOUT_MAX: Final = "transaction.max.timeout.ms"
RETENTION: Final = "offsets.retention.minutes"
_TOPIC: Final = 2
_BROKER: Final = 4

Settings = dict[str, str | None]


def check_fit(wire: Wire) -> int | None:
    """Refuse brokers that could break the promise; return the longest transaction timeout.

    None where no broker lets that setting be read: then its answers tell.
    """
    found = {node: broker_settings(wire, node) for node in wire.nodes()}
    first = wire.transaction_version() is TransactionVersion.V1
    limits = []
    for node, settings in found.items():
        if settings is None:
            _log.info("node %d does not let its settings be read; they are not checked", node)
            continue
        if first:
            _check_verification(node, settings)
        if (limit := settings.get(TIMEOUT_MAX)) is not None:
            limits.append(int(limit))
    return min(limits, default=None)


def broker_settings(wire: Wire, node: int, keys: Sequence[str] | None = None) -> Settings | None:
    """Return those settings of a broker that matter here; None where they cannot be read."""
    wanted = [VERIFICATION, TIMEOUT_MAX] if keys is None else keys
    return _settings(wire, node, _BROKER, str(node), wanted)


def topic_settings(wire: Wire, topic: str, keys: Sequence[str]) -> Settings | None:
    """Return settings of a topic as they hold for it; None where they cannot be read."""
    return _settings(wire, None, _TOPIC, topic, keys)


def sure_topic_settings(wire: Wire, topic: str, keys: Sequence[str]) -> Settings | None:
    """Return settings of a topic, None only where this user may not read them.

    Asked again while no broker can tell, within `kafka.max.block.ms`; then raised.
    """
    deadline_s = wire.clock.now_s() + wire.options.max_block_ms / 1000
    while True:
        answer = wire.ask_until_answered(lambda: _request(_TOPIC, topic, keys))
        (row,) = answer.results
        if row.error_code in DENIED:
            return None
        if not row.error_code:
            return {setting.name: setting.value for setting in row.configs}
        # A broker that has not heard of a new topic yet answers as if there were none.
        if wire.broken or wire.clock.now_s() >= deadline_s:
            raise StoreUnavailable(f"the settings of topic {topic!r}: {name_of(row.error_code)}")
        wire.clock.sleep(wire.options.retry_backoff_ms / 1000)


def _settings(
    wire: Wire, node: int | None, kind: int, name: str, keys: Sequence[str]
) -> Settings | None:
    try:
        answer: Any = wire.ask(_request(kind, name, keys), node)
    except StoreUnavailable:
        # A node that is down is no reason not to start: it is checked at the next start.
        return None
    (row,) = answer.results
    if row.error_code:
        return None
    return {setting.name: setting.value for setting in row.configs}


def _request(kind: int, name: str, keys: Sequence[str]) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource
    asked = resource(resource_type=kind, resource_name=name, configuration_keys=list(keys))
    return DescribeConfigsRequest(resources=[asked])


def _check_verification(node: int, settings: Settings) -> None:
    found = settings.get(VERIFICATION)
    if found is None:
        raise ConfigurationError(
            f"node {node} is older than Kafka 3.6 and cannot tell a dead driver's late rows from "
            "new ones; exactly-once needs Kafka 3.6.1 or newer"
        )
    if found != "true":
        raise ConfigurationError(
            f"node {node} has {VERIFICATION}={found}, so that a dead driver's late rows could join "
            "the next transaction; set it to true, which is Kafka's default"
        )
