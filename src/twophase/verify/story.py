"""One committed and one aborted transaction, as both kinds of reader see them."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import TopicPartition as Place

from twophase.errors import StoreUnavailable
from twophase.kafka.admin import TransactionState, list_transactions
from twophase.kafka.identity import Identity, TopicPartition
from twophase.kafka.options import KafkaOptions
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode
from twophase.kafka.sender import Sender
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire

_TRANSACTIONAL_ID = "demo"
_TOPIC = "orders"
_PARTITIONS = 3
_ROWS = 1_000
_READ_LIMIT_S = 20.0
_LEVELS = ("read_committed", "read_uncommitted")


@dataclass(frozen=True, slots=True)
class Moment:
    """What both kinds of reader see at one moment of the story."""

    moment: str
    read_committed: int
    read_uncommitted: int


def tell(bootstrap_servers: str) -> Iterator[Moment]:
    """Write, read, commit, write, read, abort, read; yield what the readers see each time."""
    _create_topic(bootstrap_servers)

    def moment(what: str) -> Moment:
        return Moment(what, *(_count(bootstrap_servers, level) for level in _LEVELS))

    options = KafkaOptions.parse({"kafka.bootstrap.servers": bootstrap_servers})
    with Wire(options) as wire:
        transactions = Transactions(wire)
        identity = transactions.own(_TRANSACTIONAL_ID)
        yield moment("before")
        _write(wire, identity, first_order=0)
        yield moment("first transaction written, still open")
        following = transactions.commit(identity) or transactions.reacquire(identity)
        _wait_until_ended(wire)
        yield moment("first transaction committed")
        _write(wire, following, first_order=_ROWS)
        yield moment("second transaction written, still open")
        transactions.abort(following)
        _wait_until_ended(wire)
        yield moment("second transaction aborted")


def _write(wire: Wire, identity: Identity, first_order: int) -> None:
    numbers = range(first_order, first_order + _ROWS)
    orders = pa.table(
        {
            "key": [f"customer-{number % 97}" for number in numbers],
            "value": [f'{{"order": {number}, "amount": {number % 500}}}' for number in numbers],
        }
    )
    plan = EncodePlan({_TOPIC: _PARTITIONS}, topic=_TOPIC)
    Transactions(wire).add_partitions(
        identity, [TopicPartition(_TOPIC, partition) for partition in range(_PARTITIONS)]
    )
    sender = Sender(wire, identity)
    for block in encode(orders, plan, now_ms=int(time.time() * 1000)):
        sender.send(block)
    sender.flush()


def _wait_until_ended(wire: Wire) -> None:
    """Wait for the broker to write out its decision: EndTxn answers before readers see it."""
    deadline = time.monotonic() + _READ_LIMIT_S
    ending = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
    while list_transactions(wire, prefix=_TRANSACTIONAL_ID, states=ending):
        if time.monotonic() > deadline:
            raise StoreUnavailable("the broker did not finish ending the transaction")
        time.sleep(0.01)


def _create_topic(bootstrap_servers: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 1)])
        admin.wait_for_topics([_TOPIC])
    finally:
        admin.close()


def _count(bootstrap_servers: str, isolation_level: str) -> int:
    """Return how many rows a reader sees, up to the end that its isolation level shows it."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, isolation_level=isolation_level)
    try:
        places = [Place(_TOPIC, partition) for partition in range(_PARTITIONS)]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        count, deadline = 0, time.monotonic() + _READ_LIMIT_S
        while any(consumer.position(place) < ends[place] for place in places):
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"the reader did not get to its end in {_READ_LIMIT_S} s")
            count += sum(len(rows) for rows in consumer.poll(timeout_ms=200).values())
        return count
    finally:
        consumer.close()
