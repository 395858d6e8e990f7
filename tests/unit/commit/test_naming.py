"""Names that derive from a sink id."""

import pytest

from twophase.commit.naming import SinkName
from twophase.errors import ConfigurationError


def test_a_sink_and_its_runs_have_different_names():
    """No run of one sink can have the name of another sink."""
    names = {
        SinkName("orders").transactional_id,
        SinkName("orders", "2026-11-15").transactional_id,
        SinkName("orders.2026-11-15").transactional_id,
    }
    assert names == {
        "twophase.orders",
        "twophase.orders/2026-11-15",
        "twophase.orders.2026-11-15",
    }


@pytest.mark.parametrize("bad", ["", " ", "a b", "a/b", "-a", "ä", "a" * 101, None, 7])
def test_a_name_that_kafka_or_a_person_would_trip_over_is_refused(bad):
    """The sentence names the argument, what was found and what is allowed."""
    with pytest.raises(ConfigurationError, match=r"sink_id is .*; allowed are 1 to 100"):
        SinkName(bad)
    if bad is not None:
        with pytest.raises(ConfigurationError, match="run_id is"):
            SinkName("orders", bad)
