"""Whether the brokers can keep the promise: each of them asked, each setting said by name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twophase.errors import TwoPhaseError
from twophase.kafka.findings import Finding, error, ok, unknown, warning
from twophase.kafka.fitness import (
    RETENTION,
    TIMEOUT_MAX,
    VERIFICATION,
    Settings,
    broker_settings,
)
from twophase.kafka.wire import Wire

REPLICAS: Final = {
    "__transaction_state": "transaction.state.log.replication.factor",
    "__consumer_offsets": "offsets.topic.replication.factor",
}
ID_EXPIRY: Final = "transactional.id.expiration.ms"
KEYS: Final = (VERIFICATION, TIMEOUT_MAX, RETENTION, ID_EXPIRY, *REPLICAS.values())

# The highest metadata.version that a release supports is all that a broker tells of its version.
_RELEASES: Final = (
    *((0, "3.5 or older"), (12, "3.6"), (15, "3.7"), (20, "3.8"), (21, "3.9"), (22, "4.0")),
    *((26, "4.1"), (28, "4.2"), (30, "4.3"), (31, "4.4 or newer")),
)
_FIRST_FIT: Final = 12
_FIRST_SURE: Final = 15
_WEEK_MINUTES: Final = 7 * 24 * 60

Found = Mapping[int, Settings | None]


@dataclass(frozen=True, slots=True)
class Brokers:
    """All that there are, by id: what each answers of its features, or why it does not answer."""

    answers: Mapping[int, Any]
    silent: Mapping[int, str]


def ask_brokers(wire: Wire) -> Brokers:
    """Ask each broker of the cluster, at the address that it advertises."""
    found: dict[int, Any] = {}
    silent: dict[int, str] = {}
    for node in wire.nodes():
        try:
            found[node] = wire.ask_features(node)
        except TwoPhaseError as failure:
            silent[node] = failure.message
    return Brokers(found, silent)


def broker_findings(brokers: Brokers, *, transactional: bool = True) -> Iterator[Finding]:
    """Yield whether each broker answers, its release, and the protocol of transactions."""
    answers, count = brokers.answers, len(brokers.answers) + len(brokers.silent)
    for node, said in brokers.silent.items():
        yield error(
            "brokers",
            f"node {node} does not answer: {said}",
            "partitions that it leads cannot be written",
            "start it, or open the way to its advertised address from here",
        )
    if not answers:
        return
    yield ok("brokers", f"{len(answers)} of {count} answer")
    for node, answer in answers.items():
        supported = {row.name: row.max_version for row in answer.supported_features or ()}
        level = supported.get("metadata.version")
        yield release_finding(node, level) if transactional else plain_release_finding(node, level)
    if not transactional:
        return
    levels = {
        row.max_version_level
        for answer in answers.values()
        for row in answer.finalized_features or ()
        if row.name == "transaction.version"
    }
    yield version_finding(max(levels, default=0))


def release_finding(node: int, level: int | None) -> Finding:
    """Return whether a broker's release is one that can keep the promise."""
    if level is None:
        return unknown(
            "version",
            f"node {node} does not tell its release (it runs with ZooKeeper)",
            "make sure that it is Kafka 3.6.1 or newer",
        )
    release = _release(level)
    if level < _FIRST_FIT:
        return error(
            "version",
            f"node {node} is Kafka {release}",
            "a dead driver's late rows may join the next transaction, and be committed with it",
            "upgrade to Kafka 3.6.1 or newer",
        )
    if level < _FIRST_SURE:
        return warning(
            "version",
            f"node {node} is Kafka {release}; which patch release it does not tell",
            "3.6.0 has errors in partition verification",
            "make sure that it is 3.6.1 or newer",
        )
    return ok("version", f"node {node} is Kafka {release}")


def _release(level: int) -> str:
    return next(name for first, name in reversed(_RELEASES) if level >= first)


def plain_release_finding(node: int, level: int | None) -> Finding:
    """Return whether a broker's release is one that a sink without transactions can write to."""
    if level is None:
        return unknown(
            "version",
            f"node {node} does not tell its release (it runs with ZooKeeper)",
            "make sure that it is Kafka 3.0 or newer; an older one also asks for IDEMPOTENT_WRITE "
            "on the cluster",
        )
    return ok("version", f"node {node} is Kafka {_release(level)}")


def version_finding(level: int) -> Finding:
    """Return which protocol of transactions the cluster has finalised."""
    second = 2
    if level >= second:
        return ok("transaction.version", f"{level}: every transaction has an epoch of its own")
    return ok(
        "transaction.version",
        f"{level}: safe with partition verification; 2 (Kafka 4.0 and newer) saves a request for "
        "each batch: kafka-features.sh upgrade --feature transaction.version=2",
    )


def settings_of(wire: Wire, brokers: Brokers) -> dict[int, Settings | None]:
    """Return what each broker lets be read of its settings."""
    told = {node: broker_settings(wire, node, KEYS) for node in brokers.answers}
    return told | dict.fromkeys(brokers.silent)


def setting_findings(
    found: Found, timeout_ms: int, *, first: bool, may_grow: bool
) -> Iterator[Finding]:
    """Yield whether the brokers' settings fit; `first`: transactions are of version 1.

    `may_grow`: the sink repeats a batch that was cut off with a longer timeout, up to the limit.
    """
    readable = {node: settings for node, settings in found.items() if settings is not None}
    if len(readable) < len(found):
        silent = sorted(set(found) - set(readable))
        yield unknown(
            "broker settings",
            f"node {', '.join(map(str, silent))} does not tell its settings",
            "let it answer, and grant DESCRIBE_CONFIGS on the cluster, or ask who may look: "
            + ", ".join(KEYS),
        )
    if not readable:
        return
    yield _verification([settings.get(VERIFICATION) for settings in readable.values()], first=first)
    if limits := _numbers(readable, TIMEOUT_MAX):
        yield _timeout(min(limits), timeout_ms, may_grow=may_grow)
    if minutes := _numbers(readable, RETENTION):
        yield _retention(min(minutes))
    if expiries := _numbers(readable, ID_EXPIRY):
        yield _id_expiry(min(expiries) // 60_000)


def _numbers(readable: Mapping[int, Settings], key: str) -> list[int]:
    return [int(text) for settings in readable.values() if (text := settings.get(key)) is not None]


def _verification(values: Sequence[str | None], *, first: bool) -> Finding:
    if all(value == "true" for value in values):
        return ok(VERIFICATION, "true on every broker")
    said = "off, or not known to a broker that is older than Kafka 3.6"
    if not first:
        return ok(VERIFICATION, f"{said}; transactions of version 2 do not need it")
    return error(
        VERIFICATION,
        said,
        "a dead driver's late rows may join the next transaction, and be committed with it",
        "set it to true, which is Kafka's default; the sink refuses to start until then",
    )


def _timeout(limit_ms: int, timeout_ms: int, *, may_grow: bool) -> Finding:
    if timeout_ms > limit_ms:
        return error(
            TIMEOUT_MAX,
            f"{limit_ms}, and the sink's kafka.transaction.timeout.ms is {timeout_ms}",
            "the brokers refuse the sink's first request",
            f"lower kafka.transaction.timeout.ms to {limit_ms} at most, or raise that limit",
        )
    if timeout_ms == limit_ms and may_grow:
        return warning(
            TIMEOUT_MAX,
            f"{limit_ms}, and so is the sink's kafka.transaction.timeout.ms",
            "a send that takes longer is cut off, and there is no longer timeout to repeat it with",
            "raise the brokers' limit above the sink's timeout",
        )
    return ok(TIMEOUT_MAX, f"{limit_ms}; the sink's kafka.transaction.timeout.ms is {timeout_ms}")


def _retention(minutes: int) -> Finding:
    if minutes < _WEEK_MINUTES:
        return warning(
            RETENTION,
            f"{minutes}, which is {minutes / 60:.1f} hours",
            "a query that is stopped for longer loses its marker, and is refused if it was stopped "
            "in the middle of a batch; a batch job's run may be written twice after that",
            f"set it to {_WEEK_MINUTES} or more on every broker",
        )
    return ok(RETENTION, f"{minutes}: a stopped query keeps its marker for {minutes // 1440} days")


def _id_expiry(minutes: int) -> Finding:
    if minutes < _WEEK_MINUTES:
        return warning(
            ID_EXPIRY,
            f"{minutes * 60_000}, which is {minutes / 60:.1f} hours",
            "how a stopped query's last transaction ended is forgotten after that: the second "
            "witness where the marker is missing",
            f"set it to {_WEEK_MINUTES * 60_000} or more on every broker",
        )
    return ok(ID_EXPIRY, f"{minutes * 60_000}")
