"""The options of Spark's Kafka source: those that it shares with the sinks, and its own.

What the Java client would take a class or a program from is in neither table, and so refused.
"""

from collections.abc import Mapping
from typing import Any, Final

from twophase.kafka.option_table import OPTIONS, PREFIX, SECURITY
from twophase.options import BOOLEAN, INT_MAX, LONG_MAX, TEXT, Option, choice, integer

# Of the connection, so that source and sinks may have them alike.
_CONNECTION: Final = (
    "bootstrap.servers",
    "client.id",
    "client.dns.lookup",
    "request.timeout.ms",
    "retry.backoff.ms",
    "retry.backoff.max.ms",
    "metadata.max.age.ms",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "connections.max.idle.ms",
    "socket.connection.setup.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
    "send.buffer.bytes",
    "receive.buffer.bytes",
)

SHARED: Final[Mapping[str, str]] = {
    PREFIX + name: OPTIONS[name].meaning
    for name in (*_CONNECTION, *(option.name for option in SECURITY))
}

_BYTES: Final = integer(1, INT_MAX, "bytes")
_MS: Final = integer(1, INT_MAX, "milliseconds")


def _row(name: str, kind: Any, meaning: str) -> Option:
    return Option(name, name, kind, None, meaning)


# What the section has keys for (topic, starting_offsets, ...) is not here: one way for each thing.
SOURCE: Final[Mapping[str, Option]] = {
    option.name: option
    for option in (
        _row("failOnDataLoss", BOOLEAN, "whether rows that are gone from Kafka fail the query"),
        _row("minPartitions", integer(1, INT_MAX), "how many tasks read, at least"),
        _row("maxRecordsPerPartition", integer(1, LONG_MAX), "how many rows one task reads"),
        _row("minOffsetsPerTrigger", integer(1, LONG_MAX), "a batch waits for so many rows"),
        _row("maxTriggerDelay", TEXT, "how long it waits for them"),
        _row("includeHeaders", BOOLEAN, "whether the column headers is there"),
        _row("groupIdPrefix", TEXT, "how the names of the source's groups begin"),
        _row("startingTimestamp", integer(0, LONG_MAX, "milliseconds"), "where to begin, by time"),
        _row("startingOffsetsByTimestamp", TEXT, "the same for each partition, as JSON"),
        _row(
            "startingOffsetsByTimestampStrategy",
            choice({"error": "error", "latest": "latest"}),
            "what to do where no row is as late",
        ),
        _row("kafkaConsumer.pollTimeoutMs", _MS, "how long a task waits for rows"),
        _row("fetchOffset.numRetries", integer(0, INT_MAX), "how often offsets are asked for"),
        _row("fetchOffset.retryIntervalMs", _MS, "the pause before they are asked for again"),
        _row("kafka.group.id", TEXT, "the one group of the source, where rights are by group"),
        _row("kafka.check.crcs", BOOLEAN, "whether checksums are looked at"),
        _row("kafka.client.rack", TEXT, "where the reader stands, to read from a near replica"),
        _row("kafka.default.api.timeout.ms", _MS, "how long a call of the client may take"),
        _row("kafka.fetch.max.bytes", _BYTES, "the most that one fetch brings"),
        _row("kafka.fetch.max.wait.ms", integer(0, INT_MAX, "milliseconds"), "how long it waits"),
        _row("kafka.fetch.min.bytes", _BYTES, "the least that it waits for"),
        _row("kafka.max.partition.fetch.bytes", _BYTES, "the most of one partition"),
        _row("kafka.max.poll.records", integer(1, INT_MAX), "rows that one poll hands out"),
        _row("kafka.session.timeout.ms", _MS, "of the source's groups"),
    )
}
