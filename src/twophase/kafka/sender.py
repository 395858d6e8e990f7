"""The sender: blocks to their partitions' leaders, pipelined, in order, acknowledged or not done.

One lane per partition keeps order and sequence numbers (lane.py), and a rota gives them turns
(rota.py). This module gathers what the lanes may send into one Produce request per node, hands each
answer back to its lane, looks up leaders anew and waits between tries. The caller's thread adds
blocks and waits; kafka-python's I/O thread brings answers and timers. Both work under one lock, and
no call under it blocks but for the two waits.

Failures it survives: a lost request, a lost answer, a leader that moved, a broker that is down or
slow for less than `kafka.delivery.timeout.ms`, a quota. Any other answer, an interrupt in `send`, a
closed wire: it stops at once and for good, and what was not acknowledged is never reported as sent.

The same sender writes into a transaction and outside of one; only the stamp on its blocks differs.
A producer without an id cannot tell the broker what is a repeat, so its lanes send one block at a
time: a repeat then doubles rows, but never changes their order.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

from twophase.errors import ProtocolViolation, StoreUnavailable, TwoPhaseError
from twophase.kafka import answers
from twophase.kafka.blocks import Block, stamp
from twophase.kafka.identity import NOBODY, Identity, Producer, TopicPartition
from twophase.kafka.lane import Acknowledged, Lane, Parcel
from twophase.kafka.leaders import check_described, leaders_in, leaders_request
from twophase.kafka.options import ALL_REPLICAS
from twophase.kafka.produce import Sent, produce_request, refusal, rows_of
from twophase.kafka.rota import Rota
from twophase.kafka.wire import Wire

# A request carries blocks of many partitions, because a broker works off the requests of one
# connection one after the other; this much keeps it busy without long waits behind it.
_REQUEST_BYTES: Final = 4_000_000
# What a caller with many small blocks should give at once: a request costs a broker much the same
# whether it has blocks for one partition or for many.
TOGETHER_BYTES: Final = 1_000_000
_CHECK_EVERY_S: Final = 0.2
_DOUBLINGS_MAX: Final = 16
_NO_SEQUENCE: Final = -1


class Sender:
    """Sends blocks under one identity; each partition has exactly one live sender.

    Under version 1 the identity's owner adds the partitions to the transaction first. `leaders` are
    those that the caller knows of; all others are asked for, and those that have moved. `sharing`
    is how many senders have `kafka.buffer.memory` together.
    """

    def __init__(
        self,
        wire: Wire,
        identity: Identity | Producer,
        *,
        acks: int = ALL_REPLICAS,
        leaders: Mapping[TopicPartition, int] | None = None,
        sharing: int = 1,
    ) -> None:
        self._idempotent = identity != NOBODY
        if self._idempotent and acks != ALL_REPLICAS:
            raise ProtocolViolation(f"a producer id needs acks=all, not {acks}", **identity.ids())
        self._wire = wire
        self._identity = identity
        self._acks = acks
        self._buffer_bytes = wire.options.buffer_memory_bytes // sharing
        self._window = wire.options.max_in_flight if self._idempotent else 1
        self._changed = threading.Condition()
        self._lanes: dict[TopicPartition, Lane] = {}
        self._rota = Rota()
        self._leaders: dict[TopicPartition, int] = dict(leaders or {})
        self._looking_up = False
        self._requests: Counter[int] = Counter()
        self._paused_until_s: dict[TopicPartition, float] = {}
        self._wake_at_s: float | None = None
        self._progress_s: dict[TopicPartition, float] = {}
        self._pending_bytes = 0
        self._failure: TwoPhaseError | None = None

    def send(self, *blocks: Block) -> None:
        """Take blocks, which go together; waits while `kafka.buffer.memory` bytes are on their way.

        A block that is given alone goes alone, as soon as its leader is known.
        """
        limit = self._buffer_bytes
        size = sum(block.size_bytes for block in blocks)
        with self._changed:
            self._wait(lambda: not self._pending_bytes or self._pending_bytes + size <= limit)
            try:
                for block in blocks:
                    self._add(block)
                self._dispatch()
            except TwoPhaseError as error:
                self._fail(error)
                raise
            except BaseException as error:
                # An interrupt in between leaves the counts wrong, and a caller who sent the block
                # again would double it.
                self._fail(StoreUnavailable(f"send was interrupted by {type(error).__name__}"))
                raise

    def flush(self) -> tuple[Acknowledged, ...]:
        """Wait until every block is acknowledged and return what the broker confirmed."""
        with self._changed:
            self._wait(lambda: not self._pending_bytes)
            return tuple(lane.summary() for _, lane in sorted(self._lanes.items()))

    def close(self) -> None:
        """Stop sending; what is on its way may still arrive, and counts for nothing."""
        with self._changed:
            self._fail(StoreUnavailable("this sender is closed"))

    def _add(self, block: Block) -> None:
        partition = TopicPartition(block.topic, block.partition)
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = Lane(partition, self._window)
        if not lane.outstanding:
            self._progress_s[partition] = time.monotonic()
        sequence = lane.next_sequence if self._idempotent else _NO_SEQUENCE
        who, transactional = self._identity, self._identity.transactional
        header = stamp(block, who.producer_id, who.epoch, sequence, transactional=transactional)
        self._pending_bytes += block.size_bytes
        lane.add(block, header)
        self._rota.join(lane)

    def _wait(self, met: Callable[[], bool]) -> None:
        while self._failure is None and not met():
            self._changed.wait(_CHECK_EVERY_S)
            self._check_progress()
        if self._failure is not None:
            raise self._failure

    def _check_progress(self) -> None:
        if self._wire.broken:
            self._fail(StoreUnavailable("the connection to the brokers is closed"))
        limit_ms = self._wire.options.delivery_timeout_ms
        overdue = time.monotonic() - limit_ms / 1000
        late = [
            self._lanes[partition]
            for partition, since in self._progress_s.items()
            if since < overdue and self._lanes[partition].outstanding
        ]
        if late:
            text = (
                f"{late[0].partition}: no block was acknowledged for {limit_ms} ms "
                f"(kafka.delivery.timeout.ms); {late[0].outstanding} are outstanding"
            )
            self._lanes_late(late, StoreUnavailable(text))

    def _lanes_late(self, late: list[Lane], failure: TwoPhaseError) -> None:
        """Stop: what is overdue on one partition is missing from the whole."""
        del late
        self._fail(failure)

    def _fail(self, failure: TwoPhaseError) -> None:
        if self._failure is None:
            failure.ids = self._identity.ids() | failure.ids
            self._failure = failure
        self._changed.notify_all()

    def _on_io_thread(self, act: Callable[[], None]) -> None:
        """Run what an answer or a timer brings; nothing that goes wrong in it may vanish there."""
        with self._changed:
            if self._failure is not None:
                return
            try:
                act()
                self._dispatch()
            except TwoPhaseError as failure:
                self._fail(failure)
            except BaseException as failure:
                self._fail(ProtocolViolation(f"{type(failure).__name__}: {failure}"))
                raise
            self._changed.notify_all()

    def _dispatch(self) -> None:
        """Send all that the lanes and the nodes' windows allow; the lock is held."""
        if self._failure is not None:
            return
        now, window = time.monotonic(), self._wire.options.max_in_flight
        by_node: dict[int, list[Lane]] = defaultdict(list)
        for lane in self._rota:
            if not lane.ready:
                continue
            paused_until_s = self._paused_until_s.get(lane.partition, 0.0)
            leader = self._leaders.get(lane.partition)
            if paused_until_s > now:
                self._wake_later(paused_until_s)
            elif leader is None:
                self._look_up_leaders()
            elif self._requests[leader] < window:
                by_node[leader].append(lane)
        for node, lanes in by_node.items():
            while lanes and self._requests[node] < window:
                self._send_request(node, self._fill(lanes))
                lanes[:] = [lane for lane in lanes if lane.ready]

    def _fill(self, lanes: list[Lane]) -> Sent:
        """Take one block from each lane in its turn, as many as fit into one request."""
        sent: Sent = {}
        size = 0
        while lanes and size < _REQUEST_BYTES:
            lane = lanes.pop(0)
            parcel = sent[lane.partition] = lane.take()
            size += parcel.size_bytes
            self._rota.served(lane)
            if lane.ready:
                lanes.append(lane)
            if lanes and lanes[0].partition in sent:
                break
        return sent

    def _send_request(self, node: int, sent: Sent) -> None:
        self._requests[node] += 1

        def done(answer: Any, error: TwoPhaseError | None) -> None:
            def take() -> None:
                self._requests[node] -= 1
                self._take_answer(sent, answer, error)

            self._on_io_thread(take)

        options = self._wire.options
        request = produce_request(self._identity, sent, options.request_timeout_ms, self._acks)
        self._wire.submit(request, node, done)

    def _take_answer(self, sent: Sent, answer: Any, error: TwoPhaseError | None) -> None:
        if error is not None:
            if not isinstance(error, StoreUnavailable):
                raise error
            for partition, parcel in sent.items():
                self._again(partition, parcel, elsewhere=True)
            return
        rows = rows_of(answer)
        for partition, parcel in sent.items():
            row = rows.get(partition)
            if row is None:
                raise ProtocolViolation(f"{partition}: the broker's answer leaves it out")
            self._take_row(partition, parcel, row)

    def _take_row(self, partition: TopicPartition, parcel: Parcel, row: Any) -> None:
        lane = self._lanes[partition]
        if row.error_code == 0:
            lane.acknowledged(parcel, row.base_offset)
            self._landed(parcel, partition)
            return
        if row.error_code == answers.OUT_OF_ORDER_SEQUENCE_NUMBER:
            lane.check_order(parcel)
            self._again(partition, parcel, elsewhere=False)
            return
        verdict = answers.meaning(answers.PRODUCE, row.error_code)
        if not isinstance(verdict, answers.Retry):
            failure = refusal(verdict, partition, parcel, row, self._identity)
            self._block_refused(lane, parcel, failure)
            return
        self._again(partition, parcel, elsewhere=verdict is answers.AGAIN_ELSEWHERE)

    def _landed(self, parcel: Parcel, partition: TopicPartition) -> None:
        self._pending_bytes -= parcel.size_bytes
        self._progress_s[partition] = time.monotonic()

    def _block_refused(self, lane: Lane, parcel: Parcel, failure: TwoPhaseError) -> None:
        """Stop: a block that no retry can write is missing from the whole."""
        del lane, parcel
        raise failure

    def _again(self, partition: TopicPartition, parcel: Parcel, *, elsewhere: bool) -> None:
        lane = self._lanes[partition]
        lane.refused(parcel)
        self._rota.join(lane)
        if elsewhere:
            self._leaders.pop(partition, None)
        options = self._wire.options
        doublings = min(parcel.attempts - 1, _DOUBLINGS_MAX)
        pause_ms = min(options.retry_backoff_ms * 2**doublings, options.retry_backoff_max_ms)
        self._paused_until_s[partition] = time.monotonic() + pause_ms / 1000

    def _wake_later(self, at_s: float) -> None:
        """Dispatch again at that time; one timer at a time, the earliest."""
        if self._wake_at_s is not None and self._wake_at_s <= at_s:
            return
        self._wake_at_s = at_s

        def wake() -> None:
            if self._wake_at_s == at_s:
                self._wake_at_s = None

        delay_s = max(0.0, at_s - time.monotonic())
        self._wire.later(delay_s, lambda: self._on_io_thread(wake))

    def _look_up_leaders(self) -> None:
        """Ask for all leaders at once, one request at a time."""
        if self._looking_up:
            return
        self._looking_up = True
        topics = {partition.topic for partition in self._lanes}

        def done(answer: Any, error: TwoPhaseError | None) -> None:
            def take() -> None:
                self._looking_up = False
                if answer is not None:
                    check_described(answer)
                    self._leaders |= leaders_in(answer)
                elif error is not None and not isinstance(error, StoreUnavailable):
                    raise error
                # What still has no leader is looked up again after a pause.
                until_s = time.monotonic() + self._wire.options.retry_backoff_ms / 1000
                for partition in (lane.partition for lane in self._rota):
                    if partition not in self._leaders:
                        paused_s = self._paused_until_s.get(partition, 0.0)
                        self._paused_until_s[partition] = max(paused_s, until_s)

            self._on_io_thread(take)

        self._wire.submit(leaders_request(topics), None, done)
