"""What runs that share a sink in task scope do to each other: whose transactions are ended."""

from functools import partial
from types import SimpleNamespace

import pytest
from support.scopes import Moving

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


class Overtaken(KafkaTaskSink):
    """Another run opens its batch just when this one has made its pool."""

    @property
    def _pool(self):
        return self._latest

    @_pool.setter
    def _pool(self, pool):
        self._latest = pool
        if pool is not None and pool.base == driver_base(ONE, EPOCH):
            self.open(Turn(OTHER, EPOCH, 0))


@pytest.mark.usefixtures("ended")
def test_a_run_that_opens_beside_another_one_gets_its_own_hand(monkeypatch):
    """From the other's ids it would draw transactions that the other one ends, decided or not."""
    monkeypatch.setattr(
        task_sink, "Pool", lambda _, base, __: SimpleNamespace(base=base, open=lambda: base)
    )
    sink = Overtaken(KafkaOptions.parse({"kafka.bootstrap.servers": "x:1"}), "t", "t")
    assert sink.open(Turn(ONE, EPOCH, 0)) == driver_base(ONE, EPOCH)


def test_a_query_is_noted_again_under_its_own_name(sink, monkeypatch):
    """Also where a job was written by the same object since: that one has another owner."""
    clock, noted = Moving(), []

    def take(name, owner, epoch, *, again):
        noted.append((name.run_id, owner, epoch, again))

    monkeypatch.setattr(task_sink, "check_fit", lambda _: None)
    monkeypatch.setattr(task_sink, "shared_wire", lambda _: SimpleNamespace(clock=clock))
    monkeypatch.setattr(
        task_sink, "Ownership", lambda _, name, __: SimpleNamespace(take=partial(take, name))
    )
    monkeypatch.setattr(
        task_sink, "Pool", lambda _, base, __: SimpleNamespace(base=base, open=lambda: None)
    )
    query = prefix_of(SinkName("s"))
    sink.own(query, EPOCH, "query")
    clock.sleep(1800)
    sink.own(ONE, EPOCH, "run")
    noted.clear()
    sink.open(Turn(query, EPOCH, 1))
    assert noted == []
    clock.sleep(1800)
    sink.open(Turn(query, EPOCH, 2))
    assert noted == [(None, "query", EPOCH, True)]
    sink.open(Turn(query, EPOCH, 3))
    assert len(noted) == 1


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
