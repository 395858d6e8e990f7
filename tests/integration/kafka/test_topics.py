"""How many partitions a topic has, and what is said of one that is not there."""

import pytest

from twophase.errors import ConfigurationError
from twophase.kafka.leaders import leaders_in, leaders_request, partition_counts_in


def test_counts_and_leaders(wire, broker, make_topic):
    """Every partition is counted and has a leader."""
    three, one = make_topic(broker, partitions=3), make_topic(broker)
    answer = wire.ask(leaders_request([three, one]))
    assert partition_counts_in(answer) == {three: 3, one: 1}
    assert set(leaders_in(answer)) == {(three, 0), (three, 1), (three, 2), (one, 0)}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no-such-topic", "'no-such-topic' does not exist on this cluster; create it first"),
        ("not a topic", "'not a topic' is not a valid topic name"),
    ],
)
def test_a_topic_that_cannot_be_written_to(wire, name, said):
    """One clear sentence; and the broker was not asked to create it."""
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=said):
            partition_counts_in(wire.ask(leaders_request([name])))
