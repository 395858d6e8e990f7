"""Blocks of a batch to their topics, and what the broker has confirmed of them."""

from collections.abc import Iterable, Mapping
from contextlib import closing

from twophase.commit.summary import Summary
from twophase.kafka.blocks import Block, together
from twophase.kafka.identity import Identity, TopicPartition
from twophase.kafka.sender import TOGETHER_BYTES, Sender
from twophase.kafka.summaries import Tally, confirmed
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire


def send_all(sender: Sender, blocks: Iterable[Block]) -> Summary:
    """Send blocks as they come; return what they hold once the broker has confirmed all of them."""
    tally = Tally()
    for group in together(blocks, TOGETHER_BYTES):
        for block in group:
            tally.add(block)
        sender.send(*group)
    return confirmed(tally.summary(), sender.flush())


def send_batch(
    wire: Wire,
    identity: Identity,
    summary: Summary,
    blocks: Iterable[Block],
    leaders: Mapping[TopicPartition, int],
) -> Summary:
    """Send all of a batch from this process; nobody else sends a part of it."""
    places = [TopicPartition(part.topic, part.partition) for part in summary.partitions]
    Transactions(wire).add_partitions(identity, places)
    with closing(Sender(wire, identity, leaders=leaders)) as sender:
        return send_all(sender, blocks)
