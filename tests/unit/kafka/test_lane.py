"""The lane against a model of the broker's sequence check: order and exactly one copy, always.

The model is not a broker; what a real one does is tested in tests/integration/kafka. It lets every
loss and delay happen at every step, and it can do what a real one is seen to do only rarely.
"""

import random
from collections import deque

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twophase.errors import CommitRejected, ProtocolViolation
from twophase.kafka.blocks import Block
from twophase.kafka.compression import Codec
from twophase.kafka.identity import TopicPartition
from twophase.kafka.lane import WINDOW_MAX, Lane

HERE = TopicPartition("orders", 0)


def block(count=3):
    return Block("orders", 0, count, 0, 0, Codec.NONE, pa.py_buffer(b"x" * count))


def fill(lane, count):
    for _ in range(count):
        lane.add(block(), lane.next_sequence.to_bytes(4, "big"))


class ModelPartition:
    """A partition leader's check of sequence numbers for one producer id and epoch."""

    def __init__(self):
        self.log = []
        self.recent = deque(maxlen=WINDOW_MAX)

    def produce(self, parcel):
        """Return the offset, or None for OUT_OF_ORDER_SEQUENCE_NUMBER."""
        sequence = int.from_bytes(parcel.header, "big")
        for known, offset in self.recent:
            if known == sequence:
                return offset
        # A partition that has not seen the producer id takes any sequence number.
        if self.recent and sequence != self.recent[-1][0] + 3:
            return None
        offset = len(self.log) * 3
        self.recent.append((sequence, offset))
        self.log.append(sequence)
        return offset


def run(lane, seed, *, loss):
    """Send everything under random loss, delay, refusal and late copies; return the partition."""
    chance, broker, flying, late = random.Random(seed), ModelPartition(), [], []
    for _ in range(10_000):
        if not lane.outstanding:
            return broker
        if late and chance.random() < 0.1:
            # A request of a connection that we gave up arrives after all; nobody hears the answer.
            broker.produce(late.pop(chance.randrange(len(late))))
        if lane.ready and chance.random() < 0.6:
            flying.append(lane.take())
            continue
        if not flying:
            continue
        parcel = flying.pop(0 if chance.random() < 0.7 else chance.randrange(len(flying)))
        fate = chance.random()
        if fate < loss / 2:
            lane.refused(parcel)  # the request was lost, or is late
            late.append(parcel)
            continue
        offset = broker.produce(parcel)
        if offset is None:
            lane.check_order(parcel)
            lane.refused(parcel)
        elif fate < loss:
            lane.refused(parcel)  # written, but its answer was lost
        else:
            lane.acknowledged(parcel, offset)
    raise AssertionError("not delivered within 10,000 steps")


@settings(max_examples=500, deadline=None)
@given(seed=st.integers(0, 2**32), blocks=st.integers(1, 40), loss=st.floats(0, 0.8))
def test_every_block_is_written_once_and_in_order(seed, blocks, loss):
    """Whatever is lost, late or overtaken, the log holds each block once, in sequence."""
    lane = Lane(HERE, WINDOW_MAX)
    fill(lane, blocks)
    broker = run(lane, seed, loss=loss)
    assert broker.log == [3 * at for at in range(blocks)]
    summary = lane.summary()
    assert (summary.blocks, summary.records) == (blocks, 3 * blocks)
    assert (summary.first_offset, summary.next_offset) == (0, 3 * blocks)


class EagerLane(Lane):
    """A lane without the rule that the first block travels alone."""

    @property
    def ready(self):
        return bool(self._waiting) and len(self._flying) < self._window


def test_without_the_first_block_alone_a_lane_can_fail_for_good():
    """A second block that overtakes the first is written; the first can never be."""
    lane, broker = EagerLane(HERE, WINDOW_MAX), ModelPartition()
    fill(lane, 2)
    first, second = lane.take(), lane.take()
    lane.acknowledged(second, broker.produce(second))
    assert broker.produce(first) is None
    with pytest.raises(CommitRejected):
        lane.check_order(first)


class CountingLane(Lane):
    """A lane whose window counts what is in flight, not from the lowest unacknowledged block."""

    @property
    def ready(self):
        return bool(self._waiting) and len(self._flying) < (self._window if self._offsets else 1)


def test_a_window_that_counts_what_is_in_flight_can_fail_for_good():
    """Five later blocks make the broker forget one whose answer was lost."""
    lane, broker = CountingLane(HERE, WINDOW_MAX), ModelPartition()
    fill(lane, 8)
    first = lane.take()
    lane.acknowledged(first, broker.produce(first))
    unlucky = lane.take()
    for _ in range(2):
        broker.produce(unlucky)  # written, then recognised; its answer is lost both times
        for _ in range(3):
            parcel = lane.take()
            lane.acknowledged(parcel, broker.produce(parcel))
        lane.refused(unlucky)
        unlucky = lane.take()
    assert broker.produce(unlucky) is None
    with pytest.raises(CommitRejected):
        lane.check_order(unlucky)


def test_out_of_order_at_the_front_is_fatal():
    """A gap before the lowest unacknowledged block means acknowledged records are gone."""
    lane = Lane(HERE, WINDOW_MAX)
    fill(lane, 2)
    lane.acknowledged(lane.take(), 0)
    with pytest.raises(CommitRejected, match="misses records that it had acknowledged"):
        lane.check_order(lane.take())


def test_the_window_opens_after_the_first_acknowledgement():
    """One block first, then five from the lowest unacknowledged one on, repeats before the rest."""
    lane = Lane(HERE, WINDOW_MAX)
    fill(lane, 9)
    first = lane.take()
    assert not lane.ready
    lane.acknowledged(first, 0)
    flying = [lane.take() for _ in range(5)]
    assert not lane.ready
    lane.acknowledged(flying[1], 6)
    assert not lane.ready
    lane.refused(flying[0])
    for parcel in flying[2:]:
        lane.check_order(parcel)
        lane.refused(parcel)
    assert [lane.take().index for _ in range(4)] == [1, 3, 4, 5]
    assert not lane.ready


def test_offsets_that_go_back_are_refused():
    """A topic made anew acknowledges at offset 0 again: the summary sees it."""
    lane = Lane(HERE, WINDOW_MAX)
    fill(lane, 2)
    lane.acknowledged(lane.take(), 300)
    lane.acknowledged(lane.take(), 0)
    with pytest.raises(CommitRejected, match="made anew"):
        lane.summary()


def test_sequence_numbers_wrap_as_the_brokers_do():
    """After 2,147,483,647 comes 0."""
    lane = Lane(HERE, WINDOW_MAX)
    lane._next_sequence = 2**31 - 2
    lane.add(block(3), b"")
    assert lane.next_sequence == 1


@pytest.mark.parametrize(
    "misuse",
    [
        lambda lane, parcel: lane.acknowledged(parcel, -1),
        lambda lane, parcel: (lane.refused(parcel), lane.acknowledged(parcel, 1)),
        lambda lane, _: lane.take(),
        lambda lane, _: lane.summary(),
        lambda _, __: Lane(HERE, 6),
        lambda _, __: Lane(HERE, 0),
    ],
)
def test_misuse_is_a_violation(misuse):
    """What a caller must not do is refused, never guessed at."""
    lane = Lane(HERE, WINDOW_MAX)
    fill(lane, 2)
    parcel = lane.take()
    with pytest.raises(ProtocolViolation):
        misuse(lane, parcel)


def test_a_dropped_block_leaves_the_lane_free_for_the_next():
    """What is dropped counts for nothing; what was acknowledged before and after it does."""
    lane = Lane(HERE, 1)
    fill(lane, 3)
    lane.acknowledged(lane.take(), 10)
    lane.drop(lane.take())
    assert lane.outstanding == 1
    lane.acknowledged(lane.take(), 13)
    assert lane.confirmed == (2, 6, 2 * block().size_bytes)
    assert lane.outstanding == 0


def test_an_abandoned_lane_has_nothing_left():
    """Waiting and flying blocks are dropped, their bytes returned; a late answer is a mistake."""
    lane = Lane(HERE, 1)
    fill(lane, 3)
    flying = lane.take()
    assert lane.abandon() == 3 * block().size_bytes
    assert (lane.outstanding, lane.ready, lane.confirmed) == (0, False, (0, 0, 0))
    with pytest.raises(ProtocolViolation, match="not in flight"):
        lane.drop(flying)
