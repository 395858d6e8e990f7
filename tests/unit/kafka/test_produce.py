"""The Produce request: byte for byte what kafka-python's own encoder writes."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.producer.produce import ProduceRequest

from twophase.errors import ProtocolViolation
from twophase.kafka.blocks import Block
from twophase.kafka.compression import Codec
from twophase.kafka.identity import (
    NOBODY,
    Identity,
    Producer,
    TopicPartition,
    TransactionVersion,
)
from twophase.kafka.lane import Parcel
from twophase.kafka.produce import produce_request

places = st.builds(TopicPartition, st.sampled_from(["orders", "ä" * 40, "t"]), st.integers(0, 300))
bodies = st.binary(max_size=300) | st.integers(1, 40_000).map(bytes)
sents = st.dictionaries(places, bodies, min_size=1, max_size=20)


def parcel(place, body):
    block = Block(*place, 1, 0, 0, Codec.NONE, pa.py_buffer(body))
    return Parcel(0, block, b"h" * 61)


def theirs(name, bodies, version, acks=-1):
    """The same request by the library's encoder; topics in the order of their first block."""
    topic_of = ProduceRequest.TopicProduceData
    by_topic = {}
    for (topic, partition), body in bodies.items():
        by_topic.setdefault(topic, []).append(
            topic_of.PartitionProduceData(index=partition, records=b"h" * 61 + body)
        )
    request = ProduceRequest(
        transactional_id=name,
        acks=acks,
        timeout_ms=30_000,
        topic_data=[topic_of(name=name, partition_data=found) for name, found in by_topic.items()],
    )
    request.API_VERSION = version
    return request


@given(sents, st.text(min_size=1, max_size=200), st.sampled_from([9, 10, 11, 12]))
def test_the_bytes_are_the_librarys(bodies, name, version):
    """Any topics, partitions, sizes and names, in every version spoken."""
    protocol = TransactionVersion.V2 if version == 12 else TransactionVersion.V1
    identity = Identity(name, 7, 3, protocol)
    sent = {place: parcel(place, body) for place, body in bodies.items()}
    same_bytes(produce_request(identity, sent, 30_000), theirs(name, bodies, version), version)


@given(sents, st.sampled_from([Producer(7, 3), NOBODY]), st.sampled_from([9, 10, 11, 12]))
def test_without_a_transaction_the_name_is_null(bodies, producer, version):
    """With or without a producer id, for all replicas or the leader alone."""
    sent = {place: parcel(place, body) for place, body in bodies.items()}
    acks = 1 if producer == NOBODY else -1
    ours = produce_request(producer, sent, 30_000, acks)
    same_bytes(ours, theirs(None, bodies, version, acks), version)


def same_bytes(ours, expected, version):
    ours.API_VERSION = version
    for request in (ours, expected):
        request.with_header(correlation_id=41, client_id="twophase")
    assert ours.encode(header=True, framed=True) == bytes(expected.encode(header=True, framed=True))


@pytest.mark.parametrize(
    ("who", "versions"),
    [
        (Identity("a", 1, 0, TransactionVersion.V1), (9, 11)),
        (Identity("a", 1, 0, TransactionVersion.V2), (12, 12)),
        (Producer(1, 0), (9, 12)),
    ],
)
def test_the_versions_that_are_spoken(who, versions):
    """A transaction's version picks them; outside of one every flexible version will do."""
    request = produce_request(who, {}, 1)
    assert (request._min_version, request._max_version) == versions


def test_it_is_encoded_for_its_connection_only():
    """Any other use of the encoder is a mistake."""
    request = produce_request(Identity("a", 1, 0, TransactionVersion.V2), {}, 1)
    with pytest.raises(ProtocolViolation):
        request.encode(version=12)
