"""The options of a Kafka sink, as Spark and Java users write them, in types.

`KafkaOptions.parse` is the one place where their strings become types. The value is plain data
and travels to Spark's executors; `connection_settings` makes what a connection needs, on the spot.
"""

import functools
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from twophase.guarantee import Guarantee
from twophase.kafka.option_table import OPTIONS, PREFIX, SECURITY
from twophase.kafka.sasl import sasl_settings
from twophase.kafka.security import Security, TokenProvider, check_security
from twophase.kafka.tls import tls_context
from twophase.kafka.unmapped_options import IGNORED, IGNORED_PREFIXES, REFUSED, REFUSED_PREFIXES
from twophase.options import INT_MAX, as_text, nearest, refuse, shown_key

_log = logging.getLogger("twophase.options")

# As large as a broker lets a request be; kafka-python's own 1 MB is too small for the metadata of
# a large cluster.
_ANSWER_BYTES_MAX = 104_857_600
_FOR_TRANSACTIONS = ("transaction.timeout.ms",)
# acks: who must have a block before the leader answers.
ALL_REPLICAS = -1
LEADER_ONLY = 1
# Java's client takes its default level of LZ4 for "the fast compressor", not for level 9.
_LZ4_FAST = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """All options of one sink's connections, checked; picklable, its repr holds no secret."""

    bootstrap_servers: tuple[str, ...]
    client_id: str
    client_dns_lookup: str
    acks: int
    compression: str
    compression_level: int | None
    transaction_timeout_ms: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    max_block_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    max_in_flight: int
    buffer_memory_bytes: int
    max_request_bytes: int
    block_bytes: int
    metadata_max_age_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    connections_max_idle_ms: int
    socket_setup_timeout_ms: int
    socket_setup_timeout_max_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    security: Security
    given: frozenset[str]
    ignored: tuple[str, ...]

    @classmethod
    def parse(
        cls,
        options: Mapping[str, str | int | bool],
        *,
        token_provider: TokenProvider | None = None,
    ) -> Self:
        """Return the typed options, or refuse the first wrong one; warn once of ignored ones."""
        texts, ignored = _sort(options)
        if "bootstrap.servers" not in texts:
            key = PREFIX + "bootstrap.servers"
            refuse(f"{key} is missing; write host:port pairs separated by commas", key)
        values = _typed(texts)
        security_values = {option.field: values.pop(option.field) for option in SECURITY}
        security, unused = check_security(security_values, list(texts), token_provider)
        unused += _unused_levels(texts, values["compression"])
        ignored = sorted(ignored + [PREFIX + name for name in unused])
        if ignored:
            _log.warning(
                "options accepted but without effect here: %s (see docs/options.md)",
                ", ".join(ignored),
            )
        # What is said while the log is off, as it is where a file is checked, nobody has heard.
        if _log.isEnabledFor(logging.WARNING):
            for risk in security.risks():
                _warn_once(risk)
        return cls(
            security=security,
            given=frozenset(texts) - {name.removeprefix(PREFIX) for name in ignored},
            ignored=tuple(ignored),
            **values,
        )

    @property
    def for_transactions(self) -> tuple[str, ...]:
        """The given options that mean something to transactions only."""
        return tuple(PREFIX + name for name in _FOR_TRANSACTIONS if name in self.given)

    def connection_settings(self) -> dict[str, Any]:
        """Return the keyword arguments of kafka-python's connections; loads the PEM files."""
        settings: dict[str, Any] = {
            "bootstrap_servers": list(self.bootstrap_servers),
            "client_id": self.client_id,
            "client_dns_lookup": self.client_dns_lookup,
            "request_timeout_ms": self.request_timeout_ms,
            "max_in_flight_requests_per_connection": self.max_in_flight,
            "metadata_max_age_ms": self.metadata_max_age_ms,
            "reconnect_backoff_ms": self.reconnect_backoff_ms,
            "reconnect_backoff_max_ms": self.reconnect_backoff_max_ms,
            "connections_max_idle_ms": (
                INT_MAX if self.connections_max_idle_ms < 0 else self.connections_max_idle_ms
            ),
            "socket_connection_setup_timeout_ms": self.socket_setup_timeout_ms,
            "socket_connection_setup_timeout_max_ms": self.socket_setup_timeout_max_ms,
            "receive_message_max_bytes": _ANSWER_BYTES_MAX,
            "socket_options": self._socket_options(),
            "security_protocol": self.security.protocol,
        }
        if self.security.encrypted:
            settings["ssl_context"] = tls_context(self.security)
        if self.security.authenticated:
            settings |= sasl_settings(self.security)
        return settings

    def _socket_options(self) -> list[tuple[int, int, int]]:
        options = [
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        ]
        for name, size_bytes in (
            (socket.SO_SNDBUF, self.send_buffer_bytes),
            (socket.SO_RCVBUF, self.receive_buffer_bytes),
        ):
            if size_bytes >= 0:
                options.append((socket.SOL_SOCKET, name, size_bytes))
        return options


@functools.cache
def _warn_once(risk: str) -> None:
    """Warn once in this process: sinks and commands read their options more than once."""
    _log.warning("%s", risk)


def _sort(options: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Return the texts of mapped options by Java's name, and the keys that are ignored."""
    texts: dict[str, str] = {}
    ignored: list[str] = []
    seen: set[str] = set()
    for written, value in options.items():
        if not isinstance(written, str):
            refuse(f"an option's name is of type {type(written).__name__}, not a string", "?")
        # Spark's own options do not know case, so neither do these.
        key = written.strip().lower()
        name = key.removeprefix(PREFIX)
        if key in seen:
            refuse(
                f"{shown_key(written)} is given twice, in different case; keep one",
                shown_key(written),
            )
        seen.add(key)
        _check_name(written, key, name)
        if name in OPTIONS:
            texts[name] = as_text(key, value)
        else:
            ignored.append(key)
    return texts, ignored


def _check_name(written: str, key: str, name: str) -> None:
    """Refuse a name that is unknown, has no prefix, or is the sink's own business."""
    reason = _by_name_or_prefix(name, REFUSED, REFUSED_PREFIXES)
    if reason is not None:
        refuse(f"{key} cannot be set: {reason}; leave it out", key)
    known = name in OPTIONS or _by_name_or_prefix(name, IGNORED, IGNORED_PREFIXES) is not None
    if known and not key.startswith(PREFIX):
        refuse(f"{key} is an option of Kafka; write it with the prefix: {PREFIX}{key}", key)
    if not known:
        guess = nearest(name, [*OPTIONS, *IGNORED])
        hint = f"did you mean {PREFIX}{guess}?" if guess else "see docs/options.md for all"
        refuse(
            f"{shown_key(written)} is not an option of Kafka's producer; {hint}", shown_key(written)
        )


def _by_name_or_prefix(
    name: str, names: Mapping[str, str], prefixes: Mapping[str, str]
) -> str | None:
    by_prefix = (reason for prefix, reason in prefixes.items() if name.startswith(prefix))
    return names.get(name) or next(by_prefix, None)


def _typed(texts: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        text = texts.get(name)
        values[option.field] = (
            option.default_value() if text is None else option.parse(PREFIX + name, text)
        )
    values["compression_level"] = _compression_level(texts, values)
    values.pop("partitioner_ignore_keys")
    _check_timeouts(texts, values)
    return values


def _compression_level(texts: Mapping[str, str], values: dict[str, Any]) -> int | None:
    """Return the level of the chosen codec; None where the codec's own default is meant."""
    levels = {codec: values.pop(f"{codec}_level") for codec in ("gzip", "lz4", "zstd")}
    codec = values["compression"]
    if f"compression.{codec}.level" not in texts:
        return None
    level: int | None = levels[codec]
    return None if codec == "lz4" and level == _LZ4_FAST else level


def _unused_levels(texts: Mapping[str, str], codec: str) -> list[str]:
    """Return the names of given levels that are of another codec than the chosen one."""
    levels = (f"compression.{each}.level" for each in ("gzip", "lz4", "zstd") if each != codec)
    return [name for name in levels if name in texts]


def _check_timeouts(texts: Mapping[str, str], values: dict[str, Any]) -> None:
    request_ms, delivery_ms = values["request_timeout_ms"], values["delivery_timeout_ms"]
    if delivery_ms >= request_ms:
        return
    key = PREFIX + "delivery.timeout.ms"
    if "delivery.timeout.ms" in texts:
        refuse(
            f"{key}={delivery_ms} is less than {PREFIX}request.timeout.ms={request_ms}, so no"
            " request could be waited for to its end; raise the first or lower the second",
            key,
        )
    values["delivery_timeout_ms"] = request_ms


def acks_for(guarantee: Guarantee, options: KafkaOptions) -> int:
    """Return the acks that a guarantee writes with, or refuse those that it cannot have."""
    key, given = PREFIX + "acks", "acks" in options.given
    if options.acks == ALL_REPLICAS:
        return LEADER_ONLY if guarantee is Guarantee.NONE and not given else ALL_REPLICAS
    if options.acks == 0:
        refuse(
            f"{key}=0 is not allowed: the broker would answer nothing, so that lost rows could not"
            " even be counted; leave it out",
            key,
        )
    if guarantee is not Guarantee.NONE:
        refuse(
            f"{key} must be all with the guarantee {guarantee}: with less an acknowledged row can"
            " be lost; leave it out",
            key,
        )
    return options.acks
