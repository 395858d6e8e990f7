"""The sender: blocks to their partitions' leaders, pipelined, in order, acknowledged or not done.

One lane per partition keeps order and sequence numbers (lane.py); this module gathers what the
lanes may send into one Produce request per node, hands each answer back to its lane, looks up
leaders anew and waits between tries. The caller's thread adds blocks and waits; kafka-python's I/O
thread brings answers. Both work under one lock, and no call under it blocks but for the two waits.

Failures it survives: a lost request, a lost answer, a leader that moved, a broker that is down or
slow for less than `kafka.delivery.timeout.ms`, a quota. Any other answer stops it at once and for
good; what was not acknowledged is then never reported as sent.
"""

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, Final

from kafka.protocol.producer.produce import ProduceRequest

from twophase.errors import (
    ProtocolViolation,
    RowRejected,
    StoreUnavailable,
    TwoPhaseError,
)
from twophase.kafka import answers
from twophase.kafka.blocks import Block, stamp
from twophase.kafka.identity import Identity, TopicPartition, TransactionVersion
from twophase.kafka.lane import Acknowledged, Lane, Parcel
from twophase.kafka.leaders import leaders_in, leaders_request
from twophase.kafka.wire import Wire

_ALL_REPLICAS: Final = -1
# A request carries blocks of many partitions, because a broker works off the requests of one
# connection one after the other; this much keeps it busy without long waits behind it.
_REQUEST_BYTES: Final = 4_000_000
_CHECK_EVERY_S: Final = 0.2

Sent = dict[TopicPartition, Parcel]


class Sender:
    """Sends blocks under one identity; each partition has exactly one live sender."""

    def __init__(self, wire: Wire, identity: Identity) -> None:
        self._wire = wire
        self._identity = identity
        self._changed = threading.Condition()
        self._lanes: dict[TopicPartition, Lane] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._looking_up = False
        self._requests: Counter[int] = Counter()
        self._paused_until_s: dict[TopicPartition, float] = {}
        self._progress_s: dict[TopicPartition, float] = {}
        self._pending_bytes = 0
        self._failure: TwoPhaseError | None = None

    def send(self, block: Block) -> None:
        """Take a block; waits while `kafka.buffer.memory` bytes are on their way."""
        limit = self._wire.options.buffer_memory_bytes
        partition = TopicPartition(block.topic, block.partition)
        with self._changed:
            self._wait(
                lambda: not self._pending_bytes or self._pending_bytes + block.size_bytes <= limit
            )
            lane = self._lanes.get(partition)
            if lane is None:
                lane = Lane(partition, self._wire.options.max_in_flight)
                self._lanes[partition] = lane
            if not lane.outstanding:
                self._progress_s[partition] = time.monotonic()
            identity = self._identity
            lane.add(
                block,
                stamp(
                    block,
                    identity.producer_id,
                    identity.epoch,
                    lane.next_sequence,
                    transactional=True,
                ),
            )
            self._pending_bytes += block.size_bytes
            self._dispatch()

    def flush(self) -> tuple[Acknowledged, ...]:
        """Wait until every block is acknowledged and return what the broker confirmed."""
        with self._changed:
            self._wait(lambda: not self._pending_bytes)
            return tuple(lane.summary() for _, lane in sorted(self._lanes.items()))

    def close(self) -> None:
        """Stop sending; what is on its way may still arrive, and counts for nothing."""
        with self._changed:
            self._fail(StoreUnavailable("this sender is closed", **self._identity.ids()))

    def _wait(self, met: Callable[[], bool]) -> None:
        while self._failure is None and not met():
            self._changed.wait(_CHECK_EVERY_S)
            self._check_progress()
        if self._failure is not None:
            raise self._failure

    def _check_progress(self) -> None:
        limit_ms = self._wire.options.delivery_timeout_ms
        overdue = time.monotonic() - limit_ms / 1000
        for partition, since in self._progress_s.items():
            lane = self._lanes[partition]
            if lane.outstanding and since < overdue:
                self._fail(
                    StoreUnavailable(
                        f"{partition}: no block was acknowledged for {limit_ms} ms "
                        f"(kafka.delivery.timeout.ms); {lane.outstanding} are outstanding",
                        **self._identity.ids(),
                    )
                )

    def _fail(self, failure: TwoPhaseError) -> None:
        if self._failure is None:
            self._failure = failure
        self._changed.notify_all()

    def _dispatch(self) -> None:
        """Send all that the lanes and the nodes' windows allow; the lock is held."""
        if self._failure is not None:
            return
        now = time.monotonic()
        by_node: dict[int, list[Lane]] = defaultdict(list)
        for partition, lane in self._lanes.items():
            if not lane.ready or self._paused_until_s.get(partition, 0.0) > now:
                continue
            leader = self._leaders.get(partition)
            if leader is None:
                self._look_up_leaders()
            else:
                by_node[leader].append(lane)
        for node, lanes in by_node.items():
            while lanes and self._requests[node] < self._wire.options.max_in_flight:
                self._send_request(node, self._fill(lanes))
                lanes[:] = [lane for lane in lanes if lane.ready]

    @staticmethod
    def _fill(lanes: list[Lane]) -> Sent:
        """Take one block from each lane, as many as fit into one request."""
        sent: Sent = {}
        size = 0
        for lane in lanes:
            parcel = lane.take()
            sent[lane.partition] = parcel
            size += parcel.size_bytes
            if size >= _REQUEST_BYTES:
                break
        return sent

    def _send_request(self, node: int, sent: Sent) -> None:
        self._requests[node] += 1

        def done(answer: Any, error: TwoPhaseError | None) -> None:
            with self._changed:
                self._requests[node] -= 1
                if self._failure is not None:
                    return
                try:
                    self._take_answer(sent, answer, error)
                except TwoPhaseError as failure:
                    failure.ids |= self._identity.ids()
                    self._fail(failure)
                except Exception as failure:  # noqa: BLE001 - must not vanish in the I/O thread
                    self._fail(ProtocolViolation(f"{type(failure).__name__}: {failure}"))
                self._dispatch()
                self._changed.notify_all()

        self._wire.submit(self._produce_request(sent), node, done)

    def _produce_request(self, sent: Sent) -> Any:
        by_topic: dict[str, list[Any]] = defaultdict(list)
        topic_of = ProduceRequest.TopicProduceData
        for (topic, partition), parcel in sent.items():
            by_topic[topic].append(
                topic_of.PartitionProduceData(
                    index=partition, records=b"".join((parcel.header, parcel.block.body))
                )
            )
        second = self._identity.version is TransactionVersion.V2
        return ProduceRequest(
            transactional_id=self._identity.transactional_id,
            acks=_ALL_REPLICAS,
            timeout_ms=self._wire.options.request_timeout_ms,
            topic_data=[topic_of(name=name, partition_data=p) for name, p in by_topic.items()],
            min_version=12 if second else 9,
            max_version=12 if second else 11,
        )

    def _take_answer(self, sent: Sent, answer: Any, error: TwoPhaseError | None) -> None:
        if error is not None:
            if not isinstance(error, StoreUnavailable):
                raise error
            for partition, parcel in sent.items():
                self._again(partition, parcel, elsewhere=True)
            return
        rows = {
            TopicPartition(topic.name, row.index): row
            for topic in answer.responses
            for row in topic.partition_responses
        }
        for partition, parcel in sent.items():
            row = rows.get(partition)
            if row is None:
                raise ProtocolViolation(f"{partition}: the broker's answer leaves it out")
            self._take_row(partition, parcel, row)

    def _take_row(self, partition: TopicPartition, parcel: Parcel, row: Any) -> None:
        lane = self._lanes[partition]
        if row.error_code == 0:
            lane.acknowledged(parcel, row.base_offset)
            self._pending_bytes -= parcel.size_bytes
            self._progress_s[partition] = time.monotonic()
            return
        if row.error_code == answers.OUT_OF_ORDER_SEQUENCE_NUMBER:
            lane.out_of_order(parcel)
            return
        verdict = answers.meaning(answers.PRODUCE, row.error_code)
        if isinstance(verdict, answers.Retry):
            self._again(partition, parcel, elsewhere=verdict is answers.AGAIN_ELSEWHERE)
            return
        raise verdict(_refusal(verdict, partition, parcel, row))

    def _again(self, partition: TopicPartition, parcel: Parcel, *, elsewhere: bool) -> None:
        self._lanes[partition].refused(parcel)
        if elsewhere:
            self._leaders.pop(partition, None)
        options = self._wire.options
        pause_ms = min(
            options.retry_backoff_ms * 2 ** min(parcel.attempts - 1, 16),
            options.retry_backoff_max_ms,
        )
        pause_s = pause_ms / 1000 * random.uniform(0.8, 1.2)  # noqa: S311 - no secret, only jitter
        self._paused_until_s[partition] = time.monotonic() + pause_s
        self._wire.later(pause_s + 0.001, self._wake)

    def _wake(self) -> None:
        with self._changed:
            self._dispatch()

    def _look_up_leaders(self) -> None:
        """Ask for all leaders at once, one request at a time."""
        if self._looking_up:
            return
        self._looking_up = True
        topics = {partition.topic for partition in self._lanes}

        def done(answer: Any, _: TwoPhaseError | None) -> None:
            with self._changed:
                self._looking_up = False
                if answer is not None:
                    self._leaders |= leaders_in(answer)
                if all(p in self._leaders for p, lane in self._lanes.items() if lane.ready):
                    self._dispatch()
                else:
                    self._wire.later(self._wire.options.retry_backoff_ms / 1000, self._wake)

        self._wire.submit(leaders_request(topics), None, done)


def _refusal(
    verdict: type[TwoPhaseError], partition: TopicPartition, parcel: Parcel, row: Any
) -> str:
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
    return text
