"""Topics for a verification: made, known by every broker, and deleted again."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import kafka.errors as kafka_errors
from kafka.admin import KafkaAdminClient

from twophase.errors import AccessDenied, ConfigurationError, StoreUnavailable
from twophase.kafka.leaders import leaders_in, leaders_request
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire

PARTITIONS: Final = 4
# As many replicas as the brokers give by default.
BY_DEFAULT: Final = -1
_POLL_S: Final = 0.01
_TOPICS_S: Final = 60.0
_DENIED: Final = (
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.ClusterAuthorizationFailedError,
)
_MESSAGE: Final = re.compile(r"error_message=(['\"])(.+?)\1[,)]")
_DUMP: Final = "failed with response"
_WRONG: Final = (
    kafka_errors.InvalidReplicationFactorError,
    kafka_errors.InvalidPartitionsError,
    kafka_errors.PolicyViolationError,
)


def topics_of(options: KafkaOptions) -> set[str]:
    """Return the topics that are there."""
    with _admin(options, "list topics") as admin:
        return set(admin.list_topics())


def make_topics(
    options: KafkaOptions,
    names: Sequence[str],
    partitions: int = PARTITIONS,
    replicas: int = BY_DEFAULT,
) -> None:
    """Make topics; return when every broker knows them."""
    wanted = {"num_partitions": partitions, "replication_factor": replicas}
    with _admin(options, f"make the topics {', '.join(names)}", _grant("CREATE", names)) as admin:
        admin.create_topics({name: dict(wanted) for name in names})
    with Wire(options) as wire:
        for node in wire.nodes():
            _wait_for_leaders(wire, node, names, partitions * len(names))


def delete_topics(options: KafkaOptions, names: Sequence[str]) -> None:
    """Delete topics; one that is not there counts as deleted."""
    # Not looked for beforehand: a topic that this user may not see would count as not there.
    for name in names:
        with (
            _admin(options, f"delete the topic {name}", _grant("DELETE", [name])) as admin,
            suppress(kafka_errors.UnknownTopicOrPartitionError),
        ):
            admin.delete_topics([name])


@contextmanager
def _admin(options: KafkaOptions, what: str, advice: str = "") -> Iterator[Any]:
    """Open an administrator's client; what the brokers refuse is told in this package's errors."""
    settings = options.connection_settings()
    known = {name: each for name, each in settings.items() if _known(name)}
    try:
        admin = KafkaAdminClient(**known)
        try:
            yield admin
        finally:
            admin.close()
    except kafka_errors.InvalidTopicError:
        raise
    except _DENIED as error:
        raise AccessDenied(
            f"the brokers do not let this user {what}: {_said(error)}{advice}"
        ) from error
    except _WRONG as error:
        raise ConfigurationError(f"the brokers refuse to {what}: {_said(error)}") from error
    except kafka_errors.KafkaError as error:
        raise StoreUnavailable(f"the brokers did not {what}: {_said(error)}") from error


def _known(name: str) -> bool:
    """Whether an administrator's client knows a setting; it knows fewer than a connection does."""
    return name in KafkaAdminClient.DEFAULT_CONFIG


def _grant(operation: str, names: Sequence[str]) -> str:
    topics = ", ".join(repr(name) for name in names)
    return f"; grant {operation} on topic {topics} (docs/verify.md has all rights)"


def _said(error: Exception) -> str:
    """Return what the broker said; kafka-python shows the whole request and answer."""
    text, name = str(error), type(error).__name__
    found = _MESSAGE.findall(text)
    if found:
        return f"{name}: {found[-1][1]}"
    return name if _DUMP in text else text or name


def _wait_for_leaders(wire: Wire, node: int, names: Sequence[str], count: int) -> None:
    """Wait until this broker knows the topics; one knows them a moment before the others."""
    deadline_s = time.monotonic() + _TOPICS_S
    while len(leaders_in(answer := wire.ask(leaders_request(names), node))) < count:
        denied = kafka_errors.TopicAuthorizationFailedError.errno
        if any(topic.error_code == denied for topic in answer.topics):
            raise AccessDenied(
                f"the brokers do not let this user see the topics {', '.join(names)}, which it has "
                "made; grant READ, WRITE and DELETE on them"
            )
        if time.monotonic() > deadline_s:
            raise StoreUnavailable(
                f"node {node} does not know {', '.join(names)} after {_TOPICS_S:.0f} s; try again"
            )
        time.sleep(_POLL_S)
