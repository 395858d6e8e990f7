"""Consumer-group offsets inside a transaction: the marker and the source's progress."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.producer.transaction import AddOffsetsToTxnRequest, TxnOffsetCommitRequest

from twophase.errors import ConfigurationError, ProtocolViolation
from twophase.kafka import answers
from twophase.kafka.coordinator import Question, codes_of_all, settle
from twophase.kafka.identity import Identity, TopicPartition, TransactionVersion
from twophase.kafka.wire import GROUP, TRANSACTION, Wire

# The broker's default offset.metadata.max.bytes; a longer text is refused by it.
METADATA_LIMIT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What a group has committed for one partition."""

    offset: int
    metadata: str = ""


def write_offsets(
    wire: Wire, identity: Identity, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    """Make a group's offsets part of the transaction: visible with its commit, never without."""
    if not offsets:
        raise ProtocolViolation(f"no offset was given for group {group!r}", **identity.ids())
    for place, committed in offsets.items():
        size = len(committed.metadata.encode())
        if size > METADATA_LIMIT_BYTES:
            raise ConfigurationError(
                f"the offset metadata of group {group!r} for {place} has {size} bytes; "
                f"a broker takes at most {METADATA_LIMIT_BYTES}",
                **identity.ids(),
            )
    if identity.version is TransactionVersion.V1:
        _add_group(wire, identity, group)
    topic_of = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    partition_of = topic_of.TxnOffsetCommitRequestPartition
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for (topic, partition), committed in offsets.items():
        by_topic[topic].append(
            partition_of(
                partition_index=partition,
                committed_offset=committed.offset,
                committed_leader_epoch=-1,
                committed_metadata=committed.metadata,
            )
        )
    second = identity.version is TransactionVersion.V2

    def request() -> Any:
        return TxnOffsetCommitRequest(
            transactional_id=identity.transactional_id,
            group_id=group,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            # No member of the group writes here, so there is no generation to fence by: the
            # transactional id does that.
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[topic_of(name=name, partitions=found) for name, found in by_topic.items()],
            min_version=5 if second else 3,
            max_version=5 if second else 4,
        )

    settle(
        wire,
        Question(
            kind=GROUP,
            key=group,
            request=request,
            codes=lambda answer: codes_of_all(offsets, _codes_by_partition(answer)),
            table=answers.TXN_OFFSET_COMMIT,
            ids=identity.ids(),
            advice="the topics of the group's offsets must be on this cluster",
            topics=tuple(by_topic),
            group=group,
        ),
    )


def _add_group(wire: Wire, identity: Identity, group: str) -> None:
    def request() -> Any:
        return AddOffsetsToTxnRequest(
            transactional_id=identity.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group,
            max_version=3,
        )

    settle(
        wire,
        Question(
            kind=TRANSACTION,
            key=identity.transactional_id,
            request=request,
            codes=lambda answer: (answer.error_code,),
            table=answers.ADD_OFFSETS,
            ids=identity.ids(),
            group=group,
        ),
    )


def read_offsets(
    wire: Wire,
    group: str,
    partitions: Iterable[TopicPartition],
    *,
    stable: bool = True,
    limit_ms: int | None = None,
) -> dict[TopicPartition, CommittedOffset]:
    """Return what a group has committed, leaving out partitions without an offset.

    Waits while a transaction that writes these offsets is open or being ended (require_stable),
    because the answer would otherwise depend on how far the broker has got. Without `stable` it is
    what was committed last, however long a transaction stays open. `limit_ms` bounds the asking.
    """
    wanted = set(partitions)
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in wanted:
        by_topic[topic].append(partition)
    topic_of = OffsetFetchRequest.OffsetFetchRequestTopic

    def request() -> Any:
        return OffsetFetchRequest(
            group_id=group,
            topics=[topic_of(name=name, partition_indexes=p) for name, p in by_topic.items()],
            require_stable=stable,
            min_version=7,  # the first with require_stable, and the last with one group only
            max_version=7,
        )

    answer = settle(
        wire,
        Question(
            kind=GROUP,
            key=group,
            request=request,
            # An error of the whole group comes without its partitions.
            codes=lambda answer: (
                (answer.error_code,)
                if answer.error_code
                else codes_of_all(wanted, _codes_by_partition(answer))
            ),
            table=answers.OFFSET_FETCH,
            ids={"group": group},
            topics=tuple(by_topic),
            limit_ms=limit_ms,
        ),
    )
    return committed_in(answer)


def committed_in(answer: Any) -> dict[TopicPartition, CommittedOffset]:
    """Return what an OffsetFetch answer holds, leaving out partitions without an offset."""
    return {
        TopicPartition(topic.name, p.partition_index): CommittedOffset(
            p.committed_offset, p.metadata or ""
        )
        for topic in answer.topics
        for p in topic.partitions
        if p.committed_offset >= 0
    }


def _codes_by_partition(answer: Any) -> Iterator[tuple[TopicPartition, int]]:
    for topic in answer.topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), row.error_code
