"""The names of the guarantees, and the acks that each can have."""

import pytest

from twophase.errors import ConfigurationError
from twophase.guarantee import Guarantee
from twophase.kafka.options import KafkaOptions, acks_for


def options(**more):
    return KafkaOptions.parse({"kafka.bootstrap.servers": "broker:9092"} | more)


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_guarantee_is_read_by_its_name(guarantee):
    """In either case, with blanks around, or as the value itself."""
    assert Guarantee.parse(guarantee.value) is guarantee
    assert Guarantee.parse(f" {guarantee.value.upper()} ") is guarantee
    assert Guarantee.parse(guarantee) is guarantee


@pytest.mark.parametrize("text", ["exactly_once", "", "at-most-once", None, 1])
def test_another_name_is_refused(text):
    """The sentence holds what was found and every name that is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        Guarantee.parse(text)
    assert f"guarantee={str(text)!r}" in str(caught.value)
    assert "write one of exactly-once, at-least-once, none" in str(caught.value)


@pytest.mark.parametrize(
    ("guarantee", "given", "acks"),
    [
        (Guarantee.EXACTLY_ONCE, {}, -1),
        (Guarantee.AT_LEAST_ONCE, {}, -1),
        (Guarantee.AT_LEAST_ONCE, {"kafka.acks": "all"}, -1),
        (Guarantee.NONE, {}, 1),
        (Guarantee.NONE, {"kafka.acks": 1}, 1),
        (Guarantee.NONE, {"kafka.acks": "-1"}, -1),
    ],
)
def test_the_acks_of_a_guarantee(guarantee, given, acks):
    """All replicas, but for none: there the leader alone, unless all is asked for."""
    assert acks_for(guarantee, options(**given)) == acks


@pytest.mark.parametrize("guarantee", [Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE])
def test_less_than_all_is_refused_where_rows_must_not_be_lost(guarantee):
    """The sentence names option and guarantee."""
    with pytest.raises(ConfigurationError, match=f"kafka.acks must be all .* {guarantee}"):
        acks_for(guarantee, options(**{"kafka.acks": 1}))


@pytest.mark.parametrize("guarantee", Guarantee)
def test_acks_0_is_refused_by_name(guarantee):
    """Without an answer nothing can be counted, so no guarantee takes it."""
    with pytest.raises(ConfigurationError, match=r"kafka\.acks=0 is not allowed"):
        acks_for(guarantee, options(**{"kafka.acks": 0}))
