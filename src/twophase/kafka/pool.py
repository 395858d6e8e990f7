"""The identities of one driver's tasks: a queue, from which each batch gets a hand.

Ids carry the driver's epoch, so that no other driver ever asks for them. Attempts make new ones as
they need them (`tickets.py`), and the driver takes all that were drawn into its queue, each with
another epoch than the attempt had: so an id serves batch after batch, and a zombie's identity is
good for nothing. There are never more than attempts in the largest batch, nor than `limit`.

What was not drawn keeps its place in the queue, so that a ticket stands for the same identity in
every hand that has one for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from twophase.errors import CommitOutcomeUnknown, EpochStale, InvalidState, StoreUnavailable
from twophase.kafka.admin import describe_transaction
from twophase.kafka.asking import ask_each
from twophase.kafka.coordinator import Unsettled
from twophase.kafka.identity import Identity, TransactionVersion
from twophase.kafka.tickets import Hand
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire

# Epochs end at 32767, where the broker gives out another producer id; nothing here comes that far.
_EPOCH_WORN: Final = 30_000
# Kafka forgets an id after a week at rest (transactional.id.expiration.ms).
_IDLE_MAX_S: Final = 12 * 3600.0


@dataclass(frozen=True, slots=True)
class Cut:
    """What the driver's draw says of the hand before: what stays, and which ids were drawn."""

    rest: tuple[Identity | None, ...]
    drawn: tuple[str, ...]


def cut(hand: Hand, number: int) -> Cut:
    """Return what is left of a hand when the driver draws the ticket `number` places after its own.

    The identity of the driver's own draw was taken by nobody, and goes to the end of the queue.
    """
    drawn = tuple(_id_at(hand, each) for each in range(1, number))
    own = hand.at(number)
    rest = hand.identities[number:]
    return Cut((*rest, own) if own is not None else rest, drawn)


def _id_at(hand: Hand, number: int) -> str:
    found = hand.at(number)
    return hand.new_id(number) if found is None else found.transactional_id


@dataclass
class Pool:
    """The identities of one driver; `base` begins all its ids."""

    wire: Callable[[], Wire]
    base: str
    limit: int
    _tickets: int = 0
    _hand: Hand | None = None
    _following: dict[str, Identity] = field(default_factory=dict)
    _used_s: dict[str, float] = field(default_factory=dict)

    def note(self, following: Identity) -> None:
        """Take note of the identity that a commit has returned; commits run side by side."""
        self._following[following.transactional_id] = following

    def open(self) -> Hand:
        """Return the hand of the next batch; what was drawn for the one before is over."""
        wire = self.wire()
        transactions, now_s = Transactions(wire), wire.clock.now_s()
        rest, drawn, ticket = self._next(transactions)
        fresh = ask_each(lambda name: self._renewed(wire, name, ticket), drawn)
        self._used_s |= {each.transactional_id: now_s for each in fresh if each is not None}
        queue = [each if self._is_kept(each, now_s) else None for each in rest]
        queue += [each for each in fresh if each is not None and each.epoch < _EPOCH_WORN]
        while queue and queue[-1] is None:
            queue.pop()
        self._following.clear()
        self._hand = Hand(ticket, tuple(queue[: self.limit]), self.limit)
        kept = {each.transactional_id for each in self._hand.identities if each is not None}
        self._used_s = {name: at_s for name, at_s in self._used_s.items() if name in kept}
        return self._hand

    def ids(self) -> tuple[str, ...]:
        """Return the ids that may have something open: those handed out, and those drawn since."""
        hand = self._hand
        if hand is None:
            return ()
        seen = describe_transaction(self.wire(), hand.ticket.transactional_id)
        last = hand.ticket.epoch if seen is None else seen.epoch
        known = [each.transactional_id for each in hand.identities if each is not None]
        made = range(1, last - hand.ticket.epoch + 1)
        return (*known, *(hand.new_id(number) for number in made))

    def _next(
        self, transactions: Transactions
    ) -> tuple[tuple[Identity | None, ...], tuple[str, ...], Identity]:
        """Draw the driver's ticket; return what stays of the queue, what was drawn, the ticket."""
        hand = self._hand
        if hand is None:
            return (), (), self._new_ticket(transactions)
        ticket = transactions.own(hand.ticket.transactional_id, version=hand.ticket.version)
        same = ticket.producer_id == hand.ticket.producer_id
        if same and ticket.epoch + self.limit < _EPOCH_WORN:
            found = cut(hand, ticket.epoch - hand.ticket.epoch)
            return found.rest, found.drawn, ticket
        # Worn out, or forgotten by Kafka. Whoever still draws the old ticket must find nothing.
        number = ticket.epoch - hand.ticket.epoch if same else 1
        found = cut(hand, number)
        left = (each.transactional_id for each in found.rest if each is not None)
        return (), (*found.drawn, *left), self._new_ticket(transactions)

    def _new_ticket(self, transactions: Transactions) -> Identity:
        self._tickets += 1
        return transactions.own(f"{self.base}{self._tickets}")

    def _is_kept(self, identity: Identity | None, now_s: float) -> bool:
        if identity is None:
            return False
        return now_s - self._used_s.get(identity.transactional_id, now_s) < _IDLE_MAX_S

    def _renewed(self, wire: Wire, name: str, ticket: Identity) -> Identity | None:
        """Return an identity of the id that no attempt has; None where there is none to be had."""
        following = self._following.get(name)
        if following is not None:
            return following
        nobody = replace(ticket, transactional_id=name)
        if ticket.version is TransactionVersion.V2:
            return end_exactly(wire, nobody, always=True)
        if name not in self._used_s and describe_transaction(wire, name) is None:
            # An attempt has drawn it, and its ask may still come: it would abort what is open then.
            return None
        transactions = Transactions(wire)
        try:
            # Twice: the timeout raises the epoch by one, and `fate` must not take this for it.
            transactions.own(name, version=ticket.version, alone=True)
            return transactions.own(name, version=ticket.version, alone=True)
        except Unsettled:
            # The ask may be acted on later, and would abort what is open then: leave the id alone.
            return None


def end_exactly(wire: Wire, identity: Identity, *, always: bool = False) -> Identity | None:
    """Abort what is open under the identity's id now, and nothing that may come later.

    Returns the identity that follows, if this is version 2 and something was ended; `always` also
    where nothing is open, which raises the epoch all the same.
    """
    transactions, name = Transactions(wire), identity.transactional_id
    deadline_s = wire.clock.now_s() + wire.options.max_block_ms / 1000
    while True:
        seen = describe_transaction(wire, name)
        if seen is None or not (always or seen.is_open):
            return None
        try:
            return transactions.abort(identity.successor(seen.producer_id, seen.epoch))
        except (EpochStale, InvalidState, CommitOutcomeUnknown) as error:
            # It is being ended while we look, which takes as long as the leader of one of its
            # partitions is away; or no answer came. Look again.
            if wire.broken or wire.clock.now_s() >= deadline_s:
                raise StoreUnavailable(
                    f"an open transaction did not come to rest: {error.message}", **error.ids
                ) from error
        wire.clock.sleep(wire.options.retry_backoff_ms / 1000)
