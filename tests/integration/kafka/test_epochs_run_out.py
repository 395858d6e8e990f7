"""Epochs are 16 bits: the next producer id is taken without a stop."""

import threading

import pytest
from kafka.protocol.producer.transaction import InitProducerIdRequest
from support.readers import values
from support.rows import blocks, named
from support.writing import write

from twophase.kafka.wire import TRANSACTION

LAST_EPOCH = 32_766


def raise_epoch(wire, transactional_id, times):
    """Own the id so many times, without waiting for each answer; every one raises the epoch."""
    node = wire.coordinator(TRANSACTION, transactional_id)
    done, answered, refused = threading.Event(), [], []
    window = threading.Semaphore(500)

    def take(answer, error):
        (refused if error or answer.error_code else answered).append(answer or error)
        window.release()
        if len(answered) + len(refused) == times:
            done.set()

    for _ in range(times):
        assert window.acquire(timeout=30)
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
            max_version=4,
        )
        wire.submit(request, node, take)
    assert done.wait(60)
    assert not refused, refused[:3]


@pytest.mark.timeout(600)
def test_the_next_producer_id_is_taken_without_a_stop(
    wire, broker, transactions, transactional_id, make_topic
):
    """Committed and aborted transactions across the last epoch: all rows right, a new id after."""
    topic = make_topic(broker)
    identity = transactions.own(transactional_id)
    raise_epoch(wire, transactional_id, LAST_EPOCH - 5)
    identity = identity.successor(identity.producer_id, LAST_EPOCH - 5)
    first_id, expected, ids = identity.producer_id, [], set()
    for number in range(10):
        rows = named(f"batch{number}", 2)
        write(wire, identity, blocks(topic, rows))
        if number % 4 == 3:
            ended = transactions.abort(identity)
        else:
            ended = transactions.commit(identity)
            expected += rows
            # The same question again, as after a lost answer, gives the same answer.
            assert transactions.commit(identity) == ended
        ids.add((identity.producer_id, identity.epoch))
        identity = ended or transactions.reacquire(identity)
    assert len(ids) == 10
    assert {producer_id for producer_id, _ in ids} > {first_id}
    assert max(epoch for _, epoch in ids) >= LAST_EPOCH - 1
    assert values(broker.bootstrap_servers, topic) == expected
