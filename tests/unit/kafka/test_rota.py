"""Turns among lanes: nobody starves behind busier partitions."""

import pyarrow as pa

from twophase.kafka.blocks import Block
from twophase.kafka.compression import Codec
from twophase.kafka.identity import TopicPartition
from twophase.kafka.lane import WINDOW_MAX, Lane
from twophase.kafka.rota import Rota


def lane_with(partition, blocks):
    lane = Lane(TopicPartition("orders", partition), WINDOW_MAX)
    for _ in range(blocks):
        add(lane)
    return lane


def add(lane):
    lane.add(Block("orders", 0, 1, 0, 0, Codec.NONE, pa.py_buffer(b"x")), b"")


def serve(rota, times):
    """Serve the first lane that is ready, acknowledge at once; return who was served."""
    order = []
    for at in range(times):
        lane = next(lane for lane in rota if lane.ready)
        lane.acknowledged(lane.take(), at)
        rota.served(lane)
        order.append(lane.partition.partition)
    return order


def test_everybody_gets_a_turn_in_a_round():
    """Lanes with much to send do not keep out those with little."""
    rota = Rota()
    for lane in (lane_with(0, 50), lane_with(1, 50), lane_with(2, 2), lane_with(3, 50)):
        rota.join(lane)
    assert serve(rota, 10) == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_a_lane_that_is_always_filled_up_again_does_not_overtake():
    """The front lanes get new blocks as fast as they are served; the last one is served in time."""
    rota, lanes = Rota(), [lane_with(number, 1) for number in range(100)]
    for lane in lanes:
        rota.join(lane)
    served = []
    for _ in range(104):
        served += serve(rota, 1)
        for lane in lanes[:4]:
            add(lane)
            rota.join(lane)
    assert set(served) == set(range(100))


def test_a_lane_keeps_its_turn_while_it_may_not_send():
    """Its window is full: the others go on, and it is first when it may send again."""
    rota, busy, other = Rota(), lane_with(0, 9), lane_with(1, 3)
    rota.join(busy)
    rota.join(other)
    first = busy.take()
    assert serve(rota, 2) == [1, 1]
    busy.acknowledged(first, 0)
    assert serve(rota, 1) == [0]


def test_a_lane_without_blocks_has_no_turn():
    """It leaves the rota when it is empty and joins at the end."""
    rota, empty, other = Rota(), lane_with(0, 1), lane_with(1, 2)
    rota.join(empty)
    rota.join(other)
    assert serve(rota, 1) == [0]
    assert [lane.partition.partition for lane in rota] == [1]
    add(empty)
    rota.join(empty)
    assert [lane.partition.partition for lane in rota] == [1, 0]
