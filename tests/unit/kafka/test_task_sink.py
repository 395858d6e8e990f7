"""What runs that share a sink in task scope do to each other: whose transactions are ended."""

from types import SimpleNamespace

import pytest

from twophase.commit.attempts import Turn, prefix_of
from twophase.commit.naming import SinkName
from twophase.errors import BlockRefused, StoreUnavailable
from twophase.kafka import task_sink
from twophase.kafka.dead_letters import DeadLetters, stricter
from twophase.kafka.lingering import driver_base
from twophase.kafka.options import KafkaOptions
from twophase.kafka.task_sink import KafkaTaskSink

ONE, OTHER = prefix_of(SinkName("s", "one")), prefix_of(SinkName("s", "other"))
EPOCH = 1_700_000_000


@pytest.fixture
def ended(monkeypatch):
    """Return the ids that were ended, with no broker behind."""
    found = []
    monkeypatch.setattr(task_sink, "listed", lambda *_: None)
    monkeypatch.setattr(task_sink, "end_all", lambda _, names: found.extend(names))
    monkeypatch.setattr(task_sink, "shared_wire", lambda _: None)
    monkeypatch.setattr(
        task_sink, "guessed", lambda _, prefix, epoch: [f"{driver_base(prefix, epoch)}1.1"]
    )
    monkeypatch.setattr(
        task_sink, "Ownership", lambda *_: SimpleNamespace(epochs=lambda: [EPOCH - 1, EPOCH])
    )
    monkeypatch.setattr(
        task_sink,
        "Pool",
        lambda _, base, __: SimpleNamespace(
            base=base, open=lambda: None, ids=lambda: (f"{base}1.1", f"{base}1.2")
        ),
    )
    return found


@pytest.fixture
def sink():
    return KafkaTaskSink(KafkaOptions.parse({"kafka.bootstrap.servers": "x:1"}), "t", "t")


def test_a_run_ends_its_own(sink, ended):
    """All that it has handed out and no other driver's."""
    turn = Turn(ONE, EPOCH, 0)
    sink.open(turn)
    sink.recover(turn.stale)
    assert ended == [f"{driver_base(ONE, EPOCH)}1.{number}" for number in (1, 2)]


def test_a_run_leaves_alone_what_another_one_of_the_same_sink_has_open(sink, ended):
    """It is at work; and its own are found each time, without its pool."""
    turn = Turn(ONE, EPOCH, 0)
    sink.open(turn)
    sink.open(Turn(OTHER, EPOCH, 0))
    for _ in range(2):
        sink.recover(turn.stale)
    assert ended == [f"{driver_base(ONE, EPOCH)}1.1"] * 2


def test_a_refused_run_goes_again_also_where_another_one_was_refused_before(sink):
    """It may have begun before; only one that has looked at the settings in vain does not."""
    refused = BlockRefused("too large")
    assert not sink.again(refused)
    letters = KafkaTaskSink(
        KafkaOptions.parse({"kafka.bootstrap.servers": "x:1"}), "t", "t", dead_letter_topic="d"
    )
    assert [letters.again(refused), letters.again(refused)] == [True, True]
    with pytest.raises(BlockRefused) as caught:
        stricter(DeadLetters("d", "s", 0, strict=True), refused)
    assert not letters.again(caught.value)
    assert not letters.again(StoreUnavailable("no answer"))
