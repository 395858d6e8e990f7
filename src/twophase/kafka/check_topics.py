"""Whether the topics that a sink writes to lose nothing, and take its blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.metadata import MetadataRequest

from twophase.kafka.answers import name_of
from twophase.kafka.check_brokers import REPLICAS, Found
from twophase.kafka.check_setup import Setup
from twophase.kafka.dead_letters import TOPIC_NAMES, is_topic_name
from twophase.kafka.findings import Finding, error, ok, unknown, warning
from twophase.kafka.fitness import Settings, topic_settings
from twophase.kafka.options import LEADER_ONLY, KafkaOptions, acks_for
from twophase.kafka.rights import TOPIC
from twophase.kafka.wire import Wire

MIN_ISR: Final = "min.insync.replicas"
BLOCK_LIMIT: Final = "max.message.bytes"
CLEANUP: Final = "cleanup.policy"
_UNKNOWN_TOPIC: Final = 3
_ACCESS_DENIED: Final = 29
_NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True)
class Replication:
    """The least that holds for any partition of a topic, now."""

    replicas: int
    in_sync: int
    leaderless: int


def ask_topics(wire: Wire, topics: list[str]) -> dict[str, Any]:
    """Return what the brokers say of topics, rights of this user included; makes none of them."""
    topic_of = MetadataRequest.MetadataRequestTopic
    answer = wire.ask_until_answered(
        lambda: MetadataRequest(
            topics=[topic_of(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            min_version=8,
        )
    )
    return {row.name: row for row in answer.topics}


def topic_findings(wire: Wire, setup: Setup, row: Any) -> Iterator[Finding]:
    """Yield whether the sink's own topic exists, is replicated, and takes the sink's blocks."""
    topic = setup.topic
    yield there_finding("topic", setup, topic, row)
    if row.error_code:
        return
    settings = topic_settings(wire, topic, [MIN_ISR, BLOCK_LIMIT]) or {}
    yield _written_finding(wire, setup, topic, row, settings)
    yield block_finding(topic, _number(settings.get(BLOCK_LIMIT)), wire.options, fate=setup.fate)


def letter_findings(wire: Wire, setup: Setup, topic: str, row: Any) -> Iterator[Finding]:
    """Yield whether the dead-letter topic exists, keeps its rows, and how large they may be."""
    yield there_finding("dead-letter topic", setup, topic, row)
    if row.error_code:
        return
    settings = topic_settings(wire, topic, [MIN_ISR, BLOCK_LIMIT, CLEANUP]) or {}
    yield _written_finding(wire, setup, topic, row, settings)
    if "compact" in (settings.get(CLEANUP) or ""):
        yield error(
            f"{CLEANUP} of {topic}",
            f"{settings[CLEANUP]}",
            f"a letter without a key {setup.fate}, and of those with one key the last one stays",
            f"set {CLEANUP} of {topic} to delete",
        )
    limit, point = settings.get(BLOCK_LIMIT), f"{BLOCK_LIMIT} of {topic}"
    if limit is None:
        yield unknown(
            point,
            "it may not be read; the sink takes Kafka's default of 1 MB, and cuts letters above it",
            f"grant DESCRIBE_CONFIGS on topic {topic!r}: the sink works without it",
        )
    elif int(limit) <= wire.options.max_request_bytes:
        yield warning(
            point,
            f"{limit}, and rows above {wire.options.max_request_bytes} (kafka.max.request.size) "
            "are dead letters",
            "the values of most rows that are too large will be cut",
            f"raise {BLOCK_LIMIT} of {topic} above the largest row that you expect",
        )
    else:
        yield ok(point, f"{limit}; dead letters above it are cut")


def there_finding(point: str, setup: Setup, topic: str, row: Any) -> Finding:
    """Return whether a topic of the sink exists, and may be seen."""
    if not is_topic_name(topic):
        return error(
            point,
            f"{topic!r} is no name of a topic to write to",
            "the brokers refuse it",
            f"allowed are {TOPIC_NAMES}",
        )
    if row.error_code == _UNKNOWN_TOPIC:
        return error(
            point,
            f"{topic} does not exist",
            "the sink makes no topic, and refuses to start",
            f"kafka-topics.sh --create --topic {topic} --partitions N --replication-factor 3 "
            "--config min.insync.replicas=2",
        )
    if row.error_code == _ACCESS_DENIED:
        grants = [str(need) for need in setup.needs() if need.covers(TOPIC, topic)]
        return error(
            point,
            f"{topic}: {name_of(row.error_code)}; it may not exist either",
            "the sink is refused",
            f"grant {' and '.join(grants)}, which includes DESCRIBE; then check again",
        )
    if row.error_code:
        return error(
            point,
            f"{topic}: {name_of(row.error_code)}",
            "the sink cannot write to it",
            "look at the brokers, and check again",
        )
    return ok(point, f"{topic} has {len(row.partitions)} partitions")


def internal_findings(wire: Wire, rows: dict[str, Any], brokers: Found) -> Iterator[Finding]:
    """Yield whether Kafka's own topics behind transactions and markers are replicated."""
    for topic, key in REPLICAS.items():
        row = rows.get(topic)
        if row is None or row.error_code == _UNKNOWN_TOPIC:
            yield _not_made_yet(topic, key, brokers)
        elif row.error_code:
            yield unknown(
                topic, name_of(row.error_code), "grant DESCRIBE on it, or ask who may look"
            )
        else:
            settings = topic_settings(wire, topic, [MIN_ISR]) or {}
            yield replication_finding(topic, _replication(row), _number(settings.get(MIN_ISR)))


def _not_made_yet(topic: str, key: str, brokers: Found) -> Finding:
    wanted = [_number(settings.get(key)) for settings in brokers.values() if settings is not None]
    factor = max((number for number in wanted if number is not None), default=None)
    if factor is None:
        return unknown(topic, "it is not there yet; the first transaction makes it")
    if factor > len(brokers):
        return error(
            topic,
            f"it is not there yet, and {key}={factor} with {len(brokers)} brokers",
            "Kafka cannot make it, and no transaction can begin",
            f"set {key} to {len(brokers)} at most, or add brokers",
        )
    if factor == 1:
        return _single(topic)
    return ok(topic, f"it is not there yet; the first transaction makes it with {key}={factor}")


def _written_finding(wire: Wire, setup: Setup, topic: str, row: Any, settings: Settings) -> Finding:
    """Return whether a topic that rows go to keeps what the sink takes for written."""
    found = _replication(row)
    if acks_for(setup.guarantee, wire.options) == LEADER_ONLY:
        return leader_finding(topic, found)
    return replication_finding(topic, found, _number(settings.get(MIN_ISR)))


def leader_finding(topic: str, found: Replication) -> Finding:
    """Return whether a topic is written to now, by a sink that waits for the leader alone."""
    point = f"replication of {topic}"
    if found.leaderless:
        return _not_written_now(point, found, None)
    return ok(point, f"factor {found.replicas}; with kafka.acks=1 the leader alone counts")


def _replication(row: Any) -> Replication:
    return Replication(
        replicas=min((len(each.replica_nodes) for each in row.partitions), default=0),
        in_sync=min((len(each.isr_nodes) for each in row.partitions), default=0),
        leaderless=sum(each.leader_id == _NO_LEADER for each in row.partitions),
    )


def replication_finding(topic: str, found: Replication, min_isr: int | None) -> Finding:
    """Return whether a topic survives the loss of a broker, and is written to now."""
    point, factor = f"replication of {topic}", found.replicas
    if found.leaderless or found.in_sync < (min_isr or 0):
        return _not_written_now(point, found, min_isr)
    if factor == 1:
        return _single(topic)
    if min_isr is None:
        said = f"factor {factor}, {found.in_sync} in sync; {MIN_ISR} may not be read"
        return unknown(point, said, f"grant DESCRIBE_CONFIGS on {topic}")
    return _spare(point, found, min_isr)


def _spare(point: str, found: Replication, min_isr: int) -> Finding:
    said = f"factor {found.replicas}, {MIN_ISR}={min_isr}"
    if found.in_sync < found.replicas:
        why = "a partition has fewer copies than it should; the next broker that stops may stop it"
        do = "start the missing brokers, and wait until they have caught up"
        return warning(point, f"{said}, {found.in_sync} in sync", why, do)
    if min_isr == 1:
        why = "what is acknowledged may be on one disk only, and be lost with it"
        return warning(point, said, why, f"set {MIN_ISR}=2")
    if min_isr == found.replicas:
        why = "one broker that is down stops all writes"
        return warning(point, said, why, "raise the replication factor")
    return ok(point, said)


def _not_written_now(point: str, found: Replication, min_isr: int | None) -> Finding:
    if found.leaderless:
        return error(
            point,
            f"{found.leaderless} partitions have no leader",
            "nothing can be written to them",
            "start the brokers that hold them",
        )
    return error(
        point,
        f"{MIN_ISR}={min_isr}, and {found.in_sync} of {found.replicas} replicas are in sync",
        "no write is accepted",
        f"start the missing brokers, or set {MIN_ISR} below the replication factor",
    )


def _single(topic: str) -> Finding:
    return warning(
        f"replication of {topic}",
        "factor 1",
        "what was acknowledged is lost with one disk",
        f"replication factor 3 and {MIN_ISR}=2",
    )


def block_finding(topic: str, limit: int | None, options: KafkaOptions, *, fate: str) -> Finding:
    """Return whether the topic takes the sink's blocks and the largest row.

    `fate` is what becomes of one that it does not take.
    """
    point = f"{BLOCK_LIMIT} of {topic}"
    block, record = min(options.block_bytes, options.max_request_bytes), options.max_request_bytes
    if limit is None:
        return unknown(point, "it may not be read", f"grant DESCRIBE_CONFIGS on {topic}")
    if limit < block:
        return error(
            point,
            f"{limit}, and the sink cuts blocks at {block} bytes (kafka.batch.size)",
            f"a block that does not shrink below it by compression {fate}",
            f"set kafka.batch.size to {limit} at most, or raise {BLOCK_LIMIT}",
        )
    if limit < record:
        return warning(
            point,
            f"{limit}, and the sink takes rows of up to {record} bytes (kafka.max.request.size)",
            f"a block with a row in between {fate}, by the broker's refusal instead of by name",
            f"set kafka.max.request.size to {limit} at most, or raise {BLOCK_LIMIT}",
        )
    return ok(point, f"{limit}; blocks are cut at {block} bytes")


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
