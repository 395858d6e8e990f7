"""Which topics are taken for missing, by how many answers."""

from types import SimpleNamespace

import pytest

from twophase.kafka.counts import PartitionCounts

UNKNOWN_TOPIC = 3


class Brokers:
    """A wire to brokers that know of a topic from the given ask for it on."""

    def __init__(self, **known_from):
        self.known_from = known_from
        self.asked = dict.fromkeys(known_from, 0)
        self.broken = False

    def ask(self, request):
        """Answer a Metadata request."""
        return SimpleNamespace(topics=[self._topic(each.name) for each in request.topics])

    def _topic(self, name):
        self.asked[name] = self.asked.get(name, 0) + 1
        known = self.asked[name] >= self.known_from.get(name, 10**6)
        parts = [SimpleNamespace(partition_index=0, leader_id=1)] if known else []
        code = 0 if known else UNKNOWN_TOPIC
        return SimpleNamespace(name=name, error_code=code, partitions=parts, topic_id=name)


def test_one_answer_alone_makes_no_topic_a_missing_one():
    """Also after a misspelt one: the next may be new, and this broker may not know of it yet."""
    wire = Brokers(new=2)
    counts = PartitionCounts(lambda: wire, optional=True)
    counts.learn(["misspelt"])
    assert "misspelt" not in counts
    assert counts["new"] == 1


def test_what_is_known_is_not_asked_for():
    """The dead-letter topic is there, whatever a broker says that has not heard of it."""
    wire = Brokers()
    counts = PartitionCounts(lambda: wire, optional=True, known={"letters": 3})
    assert (counts["letters"], wire.asked) == (3, {})
    with pytest.raises(KeyError):
        counts["misspelt"]
