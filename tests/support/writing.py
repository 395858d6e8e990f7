"""Write blocks under an identity, as a driver and its senders do."""

from twophase.kafka.identity import TopicPartition
from twophase.kafka.sender import Sender
from twophase.kafka.transactions import Transactions


def write(wire, identity, blocks):
    """Send blocks, all acknowledged; under version 1 their partitions join first."""
    blocks = list(blocks)
    Transactions(wire).add_partitions(
        identity, {TopicPartition(block.topic, block.partition) for block in blocks}
    )
    return send_all(Sender(wire, identity), blocks)


def send_all(sender, blocks):
    """Send blocks and return what was acknowledged."""
    for block in blocks:
        sender.send(block)
    return sender.flush()
