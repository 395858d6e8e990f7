"""Settings of a sink that mean nothing beside its others: told once, by name, when it is made."""

import logging

import pytest

from twophase import KafkaSink
from twophase.errors import ConfigurationError
from twophase.spark.kafka_settings import tell_unused_in_job

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1"}
TIMEOUT = {"kafka.transaction.timeout.ms": "70000"}


@pytest.fixture
def told(caplog):
    """Make a sink and return what was logged of it."""
    caplog.set_level(logging.WARNING, "twophase")

    def told(options=None, **given):
        caplog.clear()
        KafkaSink(sink_id="s", topic="t", options=SERVERS | (options or {}), **given)
        return [record.getMessage() for record in caplog.records]

    return told


@pytest.mark.parametrize("guarantee", ["at-least-once", "none"])
def test_without_a_transaction(told, guarantee):
    """All that is for transactions, the option of Kafka among it, in one line."""
    of_transactions = {"marker_topic": "m", "checkpoint": "/c", "owner": "q", "path": "routed"}
    (said,) = told(TIMEOUT, guarantee=guarantee, **of_transactions)
    assert said == (
        f"settings without effect with the guarantee {guarantee}, which has no transaction: "
        "marker_topic, checkpoint, owner, path, kafka.transaction.timeout.ms"
    )
    assert told(guarantee=guarantee, path="auto") == []
    for name, value in of_transactions.items():
        (said,) = told(guarantee=guarantee, **{name: value})
        assert said.endswith(f": {name}")


@pytest.mark.parametrize("scope", ["batch", "task"])
def test_with_transactions_all_of_them_count(told, scope):
    """Nothing is said of what has an effect."""
    path = {"path": "routed"} if scope == "batch" else {"decisions": "/d"}
    given = {"marker_topic": "m", "checkpoint": "/c", "owner": "q", **path}
    assert told(TIMEOUT, scope=scope, **given) == []


def test_once_in_task_scope_too(told):
    """It has defaults of its own, and reads the options no second time for them."""
    (said,) = told({"kafka.linger.ms": "5"}, scope="task")
    assert "kafka.linger.ms" in said
    # Names know no case, also beside a default.
    assert told({"Kafka.Transaction.Timeout.Ms": "70000"}, scope="task") == []


def test_settings_of_a_query_in_a_batch_job(caplog):
    """Once in a process, by name, however many runs one sink object writes."""
    for _ in range(2):
        tell_unused_in_job("orders-of-a-test", source_group="progress", checkpoint=None, owner="q")
        tell_unused_in_job("orders-of-a-test", source_group=None, checkpoint=None, owner=None)
    (record,) = caplog.records
    assert record.getMessage() == (
        "settings of sink orders-of-a-test without effect in a batch job: source_group, owner"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"source_group": "g", "guarantee": "none"}, "source_group is given with the guarantee"),
        ({"source_group": "twophase.g"}, "does not begin with twophase."),
        ({"source_group": "g", "scope": "task"}, "leave source_group out, or scope"),
        ({"pool_size": 7}, 'a setting of scope="task" only'),
        ({"on_lost": "record", "guarantee": "none"}, 'a setting of scope="task" only'),
        ({"path": "routed", "scope": "task"}, "leave path out, or scope"),
    ],
)
def test_what_would_promise_more_is_refused(given, said):
    """Not only told: who gives it relies on it."""
    with pytest.raises(ConfigurationError, match=said):
        KafkaSink(sink_id="s", topic="t", options=SERVERS, **given)
