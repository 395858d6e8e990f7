"""The Produce request of many blocks, and how its answer is read."""

from collections import defaultdict
from typing import Any, Final

from kafka.protocol.producer.produce import ProduceRequest

from twophase.errors import RowRejected, TwoPhaseError
from twophase.kafka import answers
from twophase.kafka.identity import Identity, TopicPartition, TransactionVersion
from twophase.kafka.lane import Parcel

_ALL_REPLICAS: Final = -1

Sent = dict[TopicPartition, Parcel]


def produce_request(identity: Identity, sent: Sent, timeout_ms: int) -> Any:
    """Return one request with one block for each partition."""
    by_topic: dict[str, list[Any]] = defaultdict(list)
    topic_of = ProduceRequest.TopicProduceData
    for (topic, partition), parcel in sent.items():
        by_topic[topic].append(
            topic_of.PartitionProduceData(
                index=partition, records=b"".join((parcel.header, parcel.block.body))
            )
        )
    second = identity.version is TransactionVersion.V2
    return ProduceRequest(
        transactional_id=identity.transactional_id,
        acks=_ALL_REPLICAS,
        timeout_ms=timeout_ms,
        topic_data=[topic_of(name=name, partition_data=p) for name, p in by_topic.items()],
        # v12 adds partitions to the transaction by itself; v13 wants topic ids.
        min_version=12 if second else 9,
        max_version=12 if second else 11,
    )


def rows_of(answer: Any) -> dict[TopicPartition, Any]:
    """Return what the broker says about each partition."""
    return {
        TopicPartition(topic.name, row.index): row
        for topic in answer.responses
        for row in topic.partition_responses
    }


def refusal(
    verdict: type[TwoPhaseError], partition: TopicPartition, parcel: Parcel, row: Any
) -> TwoPhaseError:
    """Return the error for a block that the broker will not have."""
    said = f": {row.error_message}" if row.error_message else ""
    text = (
        f"{partition}: the broker refuses a block of {parcel.block.count} rows and "
        f"{parcel.size_bytes} bytes with {answers.name_of(row.error_code)}{said}"
    )
    if verdict is RowRejected:
        text += (
            "; where it is too large, raise the topic's max.message.bytes or lower "
            "kafka.batch.size and kafka.max.request.size"
        )
    return verdict(text)
