"""Blocks of a batch to their topics, and what the broker has confirmed of them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing
from typing import Final

from twophase.commit.summary import Summary
from twophase.kafka.blocks import Block, together
from twophase.kafka.identity import Identity, TopicPartition
from twophase.kafka.sender import TOGETHER_BYTES, Sender
from twophase.kafka.summaries import Tally, confirmed
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire

# A second connection costs some milliseconds, more with TLS and a password: less than it saves
# from here on.
_SHARED_FROM_BYTES: Final = 16_000_000


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
    Transactions(wire).add_partitions(identity, places_of(summary))
    with closing(Sender(wire, identity, leaders=leaders)) as sender:
        return send_all(sender, blocks)


def send_shared(
    wire: Wire,
    identity: Identity,
    summary: Summary,
    blocks_of: Callable[[Collection[TopicPartition]], Iterable[Block]],
    leaders: Mapping[TopicPartition, int],
) -> Summary:
    """Send all of a batch from this process, a large one over two connections.

    A broker works off the requests of one connection one after the other, so over one of them it
    never has two cores at work. Each partition's blocks go over one connection only, by one sender.
    Where no second connection opens soon, all go over the first.
    """
    places = places_of(summary)
    second = wire.beside() if len(places) > 1 and summary.bytes >= _SHARED_FROM_BYTES else None
    if second is None:
        return send_batch(wire, identity, summary, blocks_of(places), leaders)

    def send(sender: Sender, half: Collection[TopicPartition]) -> Summary:
        return send_all(sender, blocks_of(half))

    # Left from the last to the first: a sender that is closed fails the thread which uses it, so
    # none sends any more when this returns, however it does.
    with (
        ThreadPoolExecutor(2) as threads,
        second,
        closing(Sender(wire, identity, leaders=leaders, sharing=2)) as here,
        closing(Sender(second, identity, leaders=leaders, sharing=2)) as there,
    ):
        Transactions(wire).add_partitions(identity, places)
        halves = (
            threads.submit(send, here, places[::2]),
            threads.submit(send, there, places[1::2]),
        )
        ended, _ = wait(halves, return_when=FIRST_EXCEPTION)
        # One that has failed is among them.
        found = [half.result() for half in ended]
    return Summary(tuple(sorted(part for half in found for part in half.partitions)))


def places_of(summary: Summary) -> list[TopicPartition]:
    """Return the output partitions of a batch, in order."""
    return [TopicPartition(part.topic, part.partition) for part in summary.partitions]
