"""The Produce request: byte for byte what kafka-python's own encoder writes."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.producer.produce import ProduceRequest

from twophase.errors import ProtocolViolation
from twophase.kafka.blocks import Block
from twophase.kafka.compression import Codec
from twophase.kafka.identity import Identity, TopicPartition, TransactionVersion
from twophase.kafka.lane import Parcel
from twophase.kafka.produce import produce_request

places = st.builds(TopicPartition, st.sampled_from(["orders", "ä" * 40, "t"]), st.integers(0, 300))
bodies = st.binary(max_size=300) | st.integers(1, 40_000).map(bytes)
sents = st.dictionaries(places, bodies, min_size=1, max_size=20)


def parcel(place, body):
    block = Block(*place, 1, 0, 0, Codec.NONE, pa.py_buffer(body))
    return Parcel(0, block, b"h" * 61)


def theirs(identity, bodies, version):
    """The same request by the library's encoder; topics in the order of their first block."""
    topic_of = ProduceRequest.TopicProduceData
    by_topic = {}
    for (topic, partition), body in bodies.items():
        by_topic.setdefault(topic, []).append(
            topic_of.PartitionProduceData(index=partition, records=b"h" * 61 + body)
        )
    request = ProduceRequest(
        transactional_id=identity.transactional_id,
        acks=-1,
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
    ours = produce_request(identity, sent, 30_000)
    ours.API_VERSION = version
    expected = theirs(identity, bodies, version)
    for request in (ours, expected):
        request.with_header(correlation_id=41, client_id="twophase")
    assert ours.encode(header=True, framed=True) == bytes(expected.encode(header=True, framed=True))


def test_it_is_encoded_for_its_connection_only():
    """Any other use of the encoder is a mistake."""
    request = produce_request(Identity("a", 1, 0, TransactionVersion.V2), {}, 1)
    with pytest.raises(ProtocolViolation):
        request.encode(version=12)
