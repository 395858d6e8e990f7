"""Whose transactional id it is, by its name alone."""

import pytest

from twophase.commit.attempts import name_of, prefix_of
from twophase.commit.naming import SinkName
from twophase.kafka.identity import Identity, TransactionVersion
from twophase.kafka.lingering import driver_base, epoch_in
from twophase.kafka.tickets import Hand

NAME = SinkName("orders")


@pytest.mark.parametrize("name", [NAME, SinkName("orders", "monday")])
def test_an_id_names_its_sink_and_its_driver(name):
    """Tickets and what was made for them; a batch job's run has names of its own."""
    prefix = prefix_of(name)
    assert name_of(prefix) == name
    ticket = Identity(f"{driver_base(prefix, 17)}1", 5, 3, TransactionVersion.V2)
    made = Hand(ticket, (), 9).new_id(2)
    assert made == f"{ticket.transactional_id}.5"
    assert epoch_in(prefix, made) == epoch_in(prefix, ticket.transactional_id) == 17


@pytest.mark.parametrize(
    "name",
    [
        NAME.transactional_id,
        f"{NAME.transactional_id}//drivers",
        f"{prefix_of(SinkName('orders', 'monday'))}0000000017/1.1",
        f"{prefix_of(SinkName('orders2'))}0000000017/1.1",
        "orders",
    ],
)
def test_all_else_is_left_alone(name):
    """The sink's own id, its runs, sinks whose names begin alike, and strangers."""
    assert epoch_in(prefix_of(NAME), name) is None
