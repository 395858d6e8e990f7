"""A send task tells its error as its result: raised, Spark would start it again."""

from types import SimpleNamespace

import pytest

from twophase.errors import AccessDenied, StoreUnavailable
from twophase.kafka.identity import Identity, TransactionVersion
from twophase.kafka.options import KafkaOptions
from twophase.spark import tasks
from twophase.spark.jobs import error_in
from twophase.spark.tasks import SendTask

TASK = SendTask(
    KafkaOptions.parse({"kafka.bootstrap.servers": "x:1"}),
    Identity("id", 1, 0, TransactionVersion.V2),
)


@pytest.mark.parametrize("error", [AccessDenied("not you"), StoreUnavailable("nobody there")])
def test_no_connection_is_a_result_too(monkeypatch, error):
    """All rows are read before it is told: Spark is still writing them."""

    def refuse(_):
        raise error

    monkeypatch.setattr(tasks, "connection", refuse)
    monkeypatch.setattr(tasks, "task_context", lambda: SimpleNamespace(attemptNumber=lambda: 0))
    unread = iter([object(), object()])
    (rows,) = TASK(unread)
    (row,) = rows.to_pylist()
    assert type(error_in(row["error"])) is type(error)
    assert list(unread) == []


def test_what_nobody_foresaw_is_a_result_too(monkeypatch):
    """Raised, it would be hidden behind the second attempt's refusal to send anything."""
    monkeypatch.setattr(tasks, "connection", {}.__getitem__)
    monkeypatch.setattr(tasks, "task_context", lambda: SimpleNamespace(attemptNumber=lambda: 0))
    unread = iter([object()])
    (rows,) = TASK(unread)
    (row,) = rows.to_pylist()
    assert row["error"].startswith("a send task failed: KeyError: KafkaOptions(")
    assert list(unread) == []
