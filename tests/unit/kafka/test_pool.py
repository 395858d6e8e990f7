"""Hands cut from one queue: whoever draws, whenever, and from whichever hand, is alone with it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.kafka.identity import Identity, TransactionVersion
from twophase.kafka.pool import cut
from twophase.kafka.tickets import Hand

LIMIT = 6


class Model:
    """A driver and its attempts, without a broker: each draw of the ticket counts on by one."""

    def __init__(self):
        self.epochs, self.drawn = {}, 0
        self.ticket = Identity("t", 1, 0, TransactionVersion.V2)
        self.hands = [Hand(self.draw(), (), LIMIT)]

    def draw(self):
        self.drawn += 1
        return replace(self.ticket, epoch=self.drawn)

    def begin(self, hand):
        """An attempt's identity, or None where the pool is exhausted."""
        number = self.draw().epoch - hand.ticket.epoch
        if number > hand.limit:
            return None
        found = hand.at(number)
        name = hand.new_id(number) if found is None else found.transactional_id
        if found is None:
            self.epochs[name] = 0
        return (name, self.epochs[name] if found is None else found.epoch)

    def open(self):
        """As the driver does it: what was drawn gets another epoch and goes to the end."""
        hand, ticket = self.hands[-1], self.draw()
        left = cut(hand, ticket.epoch - hand.ticket.epoch)
        fresh = []
        for name in left.drawn:
            if name in self.epochs:
                self.epochs[name] += 1
                fresh.append(replace(self.ticket, transactional_id=name, epoch=self.epochs[name]))
        self.hands.append(Hand(ticket, (*left.rest, *fresh)[:LIMIT], LIMIT))


# None opens the next batch; a number is an attempt with the hand of so many batches ago.
EVENTS = st.lists(st.none() | st.integers(0, 3), max_size=60)


@given(EVENTS)
def test_no_two_attempts_share_an_identity(events):
    """Also those of earlier batches that draw late."""
    model, taken = Model(), []
    for event in events:
        if event is None:
            model.open()
        else:
            taken.append(model.begin(model.hands[max(0, len(model.hands) - 1 - event)]))
    found = [each for each in taken if each is not None]
    assert len(found) == len(set(found))


@given(EVENTS)
def test_what_is_in_a_hand_is_current(events):
    """An attempt of the present batch gets an identity that the broker takes."""
    model = Model()
    for event in events:
        if event is None:
            model.open()
            continue
        found = model.begin(model.hands[max(0, len(model.hands) - 1 - event)])
        if event == 0 and found is not None:
            assert model.epochs[found[0]] == found[1]


class DealtAnew(Model):
    """What was not drawn does not keep its place."""

    def open(self):
        super().open()
        hand = self.hands[-1]
        anew = sorted(hand.identities, key=lambda each: each.transactional_id)
        self.hands[-1] = replace(hand, identities=tuple(anew))


@pytest.mark.parametrize(("kind", "harmed"), [(Model, False), (DealtAnew, True)])
def test_without_the_queue_a_late_draw_meets_another(kind, harmed):
    """A zombie of the batch before draws among the attempts of the present one."""
    shared = False
    for late in range(4):
        model = kind()
        for _ in range(4):
            model.begin(model.hands[-1])
        model.open()
        model.begin(model.hands[-1])
        model.open()
        taken = [model.begin(model.hands[-2 if n == late else -1]) for n in range(4)]
        shared = shared or len(set(taken)) < len(taken)
    assert shared is harmed


def test_the_drivers_own_draw_costs_nothing():
    """Its identity goes to the end of the queue as it is."""
    ids = tuple(Identity(f"i{n}", 1, 0, TransactionVersion.V2) for n in range(3))
    found = cut(Hand(Identity("t", 1, 4, TransactionVersion.V2), ids, LIMIT), 2)
    assert (found.rest, found.drawn) == ((ids[2], ids[1]), ("i0",))
