"""Frames are told apart by their header alone, whatever the body holds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.producer import ProduceRequest
from unit.proxy.echo import request

from twophase.errors import ProtocolViolation
from twophase.verify.frames import ApiKey, request_frame, response_frame


@settings(max_examples=50, deadline=None)
@given(
    api_key=st.integers(0, 32767),
    version=st.integers(0, 32767),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.text(max_size=40),
    body=st.binary(max_size=64),
)
def test_header_is_read_back(api_key, version, correlation_id, client_id, body):
    """What the header says is what the frame shows, for every key, version, id and client."""
    payload = request(api_key, correlation_id, body, version=version, client_id=client_id)

    frame = request_frame(payload, port=1, connection=2)

    assert (frame.api_key, frame.api_version) == (api_key, version)
    assert (frame.correlation_id, frame.client_id) == (correlation_id, client_id)
    assert frame.wire[4:] == payload
    assert int.from_bytes(frame.wire[:4]) == len(payload)


@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize("transactional_id", [None, "x" * 200])
@pytest.mark.parametrize("version", range(3, 14))
def test_acks_of_a_produce_is_found_in_every_version(version, transactional_id, acks):
    """Only acks=0 is not answered, as encoded by another library."""
    produce = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1, topic_data=[], version=version
    )
    produce.with_header(correlation_id=7, client_id="other")
    payload = produce.encode(header=True, framed=False)

    frame = request_frame(bytes(payload), port=1, connection=2)

    assert frame.api_key is ApiKey.PRODUCE
    assert frame.client_id == "other"
    assert frame.answered is (acks != 0)


def test_only_a_produce_can_go_unanswered():
    """A body that looks like acks=0 means nothing in another request."""
    payload = request(ApiKey.END_TXN, 1, bytes(8))

    assert request_frame(payload, port=1, connection=2).answered


def test_answer_to_another_request_is_refused():
    """An answer whose correlation id is not the one due is a broken stream."""
    asked = request_frame(request(ApiKey.FETCH, 5), port=1, connection=2)

    assert response_frame(b"\0\0\0\5x", asked).api_key is ApiKey.FETCH
    with pytest.raises(ProtocolViolation, match="answer 6 came where 5 was due"):
        response_frame(b"\0\0\0\6x", asked)


@pytest.mark.parametrize("size", range(10))
def test_a_piece_of_a_header_is_refused(size):
    """A frame too short for a header is not Kafka's."""
    with pytest.raises(ProtocolViolation, match="no whole header"):
        request_frame(bytes(size), port=1, connection=2)
