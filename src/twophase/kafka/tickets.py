"""How an attempt comes by an identity that is nobody else's: it draws a ticket.

Whoever asks for an identity (InitProducerId) aborts what is open under the transactional id. An
attempt that chose an id, hung, and asked for it later would abort what another attempt had prepared
there since, and the driver decided on. So an attempt never asks for an id that anybody else has,
had or will have: the driver asks for identities and hands them out with the tasks.

Which of them is an attempt's own says a ticket. It is a transactional id under which nothing is
ever written; each who asks for it gets an epoch that nobody else gets. The driver draws first, and
the n-th ticket after its own stands for the n-th identity of its hand. A ticket beyond the hand
stands for a new id that is named after the ticket: its attempt asks for that one, once, and the
driver only after it has seen that this ask was acted on.

An attempt of an earlier batch that draws late finds in its own, older hand what the newer hand has
in the same place, because hands are cut from one queue (`pool.py`): the ticket stays its own.
"""

from dataclasses import dataclass
from typing import Final

from twophase.errors import ConfigurationError, ProtocolViolation, StoreUnavailable
from twophase.kafka.coordinator import Unsettled
from twophase.kafka.identity import Identity
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire

_DRAWS_MAX: Final = 7
_FIRST_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Hand:
    """What the tasks of one batch draw from: `ticket` is the driver's own draw.

    `identities` follow the ticket, one for each epoch; None where a new one is to be made. Not
    more than `limit` tickets may be drawn for one batch.
    """

    ticket: Identity
    identities: tuple[Identity | None, ...]
    limit: int

    def at(self, number: int) -> Identity | None:
        """Return the identity of the ticket `number` places after the driver's own."""
        return self.identities[number - 1] if number <= len(self.identities) else None

    def new_id(self, number: int) -> str:
        """Return the transactional id that is made for a ticket without an identity."""
        return f"{self.ticket.transactional_id}.{self.ticket.epoch + number}"


def take_identity(wire: Wire, hand: Hand) -> Identity:
    """Return an identity that no other attempt has, had or will have."""
    transactions, pause_s = Transactions(wire), _FIRST_PAUSE_S
    last = ""
    for _ in range(_DRAWS_MAX):
        number = _draw(transactions, hand)
        found = hand.at(number)
        if found is not None:
            return found
        try:
            return transactions.own(hand.new_id(number), version=hand.ticket.version, once=True)
        except Unsettled as unsettled:
            # Never asked again, whatever the answer was: the driver may have given the id to others
            # by then. Another ticket costs less.
            last = str(unsettled)
        wire.clock.sleep(pause_s)
        pause_s *= 2
    raise StoreUnavailable(
        f"{_DRAWS_MAX} asks for a new id were not settled, last: {last}", **hand.ticket.ids()
    )


def _draw(transactions: Transactions, hand: Hand) -> int:
    """Return how many places after the driver's own ticket the next one is."""
    ticket = hand.ticket
    drawn = transactions.own(ticket.transactional_id, version=ticket.version)
    if drawn.producer_id != ticket.producer_id:
        raise StoreUnavailable(
            "the tickets of this batch are used up, or Kafka has forgotten them; the batch is over "
            "or has to be run again",
            **drawn.ids(),
        )
    number = drawn.epoch - ticket.epoch
    if number < 1:
        raise ProtocolViolation(f"ticket {drawn} comes before its driver's {ticket}")
    if number > hand.limit:
        raise ConfigurationError(
            f"pool exhausted: the attempts of this batch have used all {hand.limit} transactional "
            "ids that pool_size allows; give the sink a larger pool_size (two for each task, and "
            "some for tasks that fail), or the DataFrame fewer partitions",
            **drawn.ids(),
        )
    return number
