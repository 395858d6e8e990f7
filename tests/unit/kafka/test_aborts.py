"""What two looks at a transaction say of the job behind it: never `STILL` where it is not known."""

from dataclasses import replace

import pytest

from twophase.kafka.aborts import Sight, sight
from twophase.kafka.holds import Tail, hold_of
from twophase.kafka.identity import TopicPartition
from twophase.kafka.open_transactions import OpenTransaction

PLACE = TopicPartition("orders", 0)
GROUPS = TopicPartition("__consumer_offsets", 3)
TAIL = Tail(stable=5, end=9, open_from={7: 5}, sequences={7: 3})


def seen(*tails, **changes):
    places = [hold_of(place, 7, tail) for place, tail in tails or [(PLACE, TAIL)]]
    one = OpenTransaction("twophase.orders", 7, 2, "Ongoing", "then", 10, 60_000, tuple(places))
    return replace(one, **changes)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (seen(age_ms=40_000), Sight.STILL),
        (None, Sight.ENDED),
        (seen(state="PrepareCommit"), Sight.ENDED),
        (seen(epoch=3), Sight.ENDED),
        (seen(producer_id=8), Sight.ENDED),
        (seen(started="later"), Sight.ENDED),
        (seen((PLACE, replace(TAIL, sequences={7: 4}))), Sight.MOVED),
        (seen((PLACE, replace(TAIL, sequences={}))), Sight.MOVED),
        (seen((PLACE, TAIL), (TopicPartition("orders", 1), TAIL)), Sight.MOVED),
        (seen((PLACE, TAIL), (GROUPS, Tail())), Sight.MOVED),
        (seen((PLACE, replace(TAIL, sequences=None))), Sight.MOVED),
        # Somebody else writes to the same partition.
        (seen((PLACE, replace(TAIL, end=20, sequences={7: 3, 8: 11}))), Sight.STILL),
    ],
)
def test_two_looks(after, said):
    """Another identity, state or start is another transaction; another sequence is a job."""
    assert sight(seen(), after) is said


def test_what_may_not_be_seen_is_not_still():
    """Without READ on a topic nobody can tell; group offsets are seen by the partitions alone."""
    unseen = seen((PLACE, replace(TAIL, open_from=None, sequences=None)))
    assert sight(unseen, unseen) is Sight.UNSEEN
    nowhere = replace(seen(), partitions=())  # Brokers leave out what may not be described.
    assert sight(nowhere, nowhere) is Sight.UNSEEN
    marked = seen((PLACE, TAIL), (GROUPS, Tail()))
    assert sight(marked, marked) is Sight.STILL


@pytest.mark.parametrize(
    "name", ["flink-1", "twophase.orders//0000000007/3", "twophase.", "twophase.a b"]
)
def test_ids_that_are_no_batch_scope_sinks(name):
    """They may be prepared, and their commit decided."""
    other = seen(transactional_id=name)
    assert sight(other, other) is Sight.FOREIGN


@pytest.mark.parametrize(
    ("tail", "first", "held_back", "holds"),
    [
        (TAIL, 5, 4, True),
        (Tail(2, 9, {7: 5, 8: 2}, {}), 5, 7, False),
        (Tail(9, 9, {}, {}), None, 0, False),
        (Tail(5, 9), None, 4, None),
        (Tail(None, None, {7: 5}, {}), 5, None, None),
        (Tail(), None, None, None),
    ],
)
def test_who_holds_readers_back(tail, first, held_back, holds):
    """The one whose first offset is the last stable one; what a leader does not tell is None."""
    hold = hold_of(PLACE, 7, tail)
    assert (hold.first_offset, hold.held_back, hold.holds) == (first, held_back, holds)
