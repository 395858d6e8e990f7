"""`twophase transactions` on a real broker: what is open, whom it holds back, what may be ended."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from support.engines import RowsEngine
from support.readers import values
from support.rows import blocks, named
from support.waiting import wait_until
from support.writing import send_all, write

from twophase.cli.main import run as command_line
from twophase.commit.effects import Outcome
from twophase.commit.machine import Machine
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.errors import Fenced
from twophase.kafka import aborts
from twophase.kafka.admin import TransactionState, describe_transaction
from twophase.kafka.identity import Identity
from twophase.kafka.open_transactions import look_at
from twophase.kafka.sender import Sender
from twophase.kafka.store import KafkaStore
from twophase.sink import write_batch

TESTS = Path(__file__).parents[2]
on_one_broker = pytest.mark.parametrize("broker", ["kafka"], indirect=True)


@pytest.fixture
def name():
    return SinkName(f"sink-{uuid4().hex[:10]}")


@pytest.fixture
def command(broker, capsys):
    """Run `twophase transactions ...`; return its exit code and what it printed."""

    def run(*arguments):
        code = command_line(
            ["transactions", *arguments, "--bootstrap-server", broker.bootstrap_servers]
        )
        return code, capsys.readouterr()

    return run


def is_open(wire, transactional_id):
    return describe_transaction(wire, transactional_id).state is TransactionState.ONGOING


@on_one_broker
def test_what_is_open_and_whom_it_holds_back(broker, wire, transactions, make_topic, name, command):
    """Identity, age and timeout are the coordinator's; of two, the older one holds readers back."""
    topic = make_topic(broker, 2)
    run_id, neighbour = f"{name.transactional_id}/nightly", f"{name.transactional_id}2"
    first = transactions.own(name.transactional_id, timeout_ms=50_000)
    second, third = transactions.own(run_id), transactions.own(neighbour)
    write(wire, first, blocks(topic, named("a", 5)))
    write(wire, second, blocks(topic, named("b", 7)))
    write(wire, third, blocks(topic, named("c", 1), partition=1))
    code, said = command("list", "--sink-id", name.sink_id, "--output", "json")
    assert code == 0
    older, younger = json.loads(said.out)["transactions"]
    assert (older["transactional_id"], older["state"]) == (name.transactional_id, "Ongoing")
    assert (older["producer_id"], older["epoch"]) == (first.producer_id, first.epoch)
    assert 0 <= older["age_ms"] < older["timeout_ms"] == 50_000
    assert older["partitions"] == [
        {
            "topic": topic,
            "partition": 0,
            "first_offset": 0,
            "last_stable_offset": 0,
            "end_offset": 12,
            "held_back": 12,
            "holds": True,
            "last_sequence": 4,
        }
    ]
    (behind,) = younger["partitions"]
    assert younger["transactional_id"] == run_id
    assert (behind["first_offset"], behind["holds"], behind["held_back"]) == (5, False, 12)
    _, said = command("list", "--prefix", neighbour)
    assert f"{topic}-1: holds readers back at offset 0, 1 records before the end" in said.out
    assert f"{name.transactional_id}:" not in said.out
    for identity in (first, second, third):
        transactions.abort(identity)
    assert "no transaction is open" in command("list", "--sink-id", name.sink_id)[1].out


@on_one_broker
def test_what_a_killed_driver_left_is_ended(broker, wire, make_topic, name, command, short_watch):
    """Killed with -9 it holds readers back; after the abort they and the next driver go on."""
    topic, servers = make_topic(broker), broker.bootstrap_servers
    script = [sys.executable, "-m", "support.mortal_driver", servers, name.sink_id, topic]
    with subprocess.Popen(script, stdout=subprocess.PIPE, cwd=TESTS, text=True) as driver:
        assert driver.stdout.readline() == "sent\n"
        driver.kill()
    seen = look_at(wire, name.transactional_id)
    assert [hold.held_back for hold in seen.partitions if hold.topic == topic] == [5]
    lingering = ["abort", "--lingering", "--sink-id", name.sink_id, "--watch", short_watch]
    code, said = command(*lingering)
    assert (code, "no terminal to ask at" in said.err) == (1, True)
    assert is_open(wire, name.transactional_id)
    code, said = command(*lingering, "--yes", "--output", "json")
    (done,) = json.loads(said.out)["transactions"]
    assert (code, done["outcome"]) == (0, "aborted")
    assert (done["producer_id"], done["epoch"]) == (seen.producer_id, seen.epoch)
    assert "cannot be told from a dead one" in said.err
    assert values(servers, topic) == []
    assert command(*lingering, "--yes")[0] == 0  # Nothing is left, and that is said.
    again = RowsEngine(wire, topic, named("kept", 3))
    assert drive(wire, name, topic, again).outcome is Outcome.COMMITTED
    assert values(servers, topic) == named("kept", 3)


@pytest.mark.long
@on_one_broker
def test_by_itself_it_watches_for_as_long_as_a_sink_waits(broker, wire, make_topic, name, capsys):
    """Half a minute, and not a second less."""
    topic, servers = make_topic(broker), broker.bootstrap_servers
    script = [sys.executable, "-m", "support.mortal_driver", servers, name.sink_id, topic]
    with subprocess.Popen(script, stdout=subprocess.PIPE, cwd=TESTS, text=True) as driver:
        assert driver.stdout.readline() == "sent\n"
        driver.kill()
    asked = ["transactions", "abort", name.transactional_id, "--yes", "--bootstrap-server", servers]
    assert command_line([*asked, "--watch", "29"]) == 2
    assert "may send nothing for 30 seconds" in capsys.readouterr().err
    assert is_open(wire, name.transactional_id)
    began_s = time.monotonic()
    assert command_line(asked) == 0
    assert time.monotonic() - began_s >= 30
    assert ": aborted: nothing has moved" in capsys.readouterr().out


@on_one_broker
def test_a_job_at_work_is_left_alone(
    broker, wire, transactions, make_topic, name, command, short_watch, monkeypatch
):
    """Rows come in while it is watched: it is left, by exit code 1, and commits all of them."""
    topic, stop = make_topic(broker), threading.Event()
    identity = transactions.own(name.transactional_id)
    sender, sent = Sender(wire, identity), []

    def work():
        while not stop.wait(0.1):
            rows = named(f"live{len(sent)}", 1)
            send_all(sender, blocks(topic, rows))
            sent.extend(rows)

    def until_it_has_moved(_seconds=None):
        # The next one may have been sent before.
        enough = len(sent) + 2
        wait_until(lambda: len(sent) >= enough)

    # However slow this machine is, the job gets to work between the two looks.
    clock = SimpleNamespace(sleep=until_it_has_moved)
    monkeypatch.setattr("twophase.cli.transactions.time", clock)
    worker = threading.Thread(target=work)
    worker.start()
    try:
        until_it_has_moved()
        code, said = command("abort", name.transactional_id, "--watch", short_watch, "--yes")
    finally:
        stop.set()
        worker.join()
    assert (code, "left open: a job is at work in it" in said.out) == (1, True)
    transactions.commit(identity)
    assert values(broker.bootstrap_servers, topic) == sent


class AbortedEngine(RowsEngine):
    """In its first try, once rows or marker are written, somebody meddles with the transaction."""

    at = "rows"

    def send(self, identity, summary):
        done = super().send(identity, summary)
        self._at("rows")
        return done

    def confirm(self):
        self._at("marker")
        super().confirm()

    def _at(self, moment):
        if self.sent == 1 and self.at == moment:
            self.meddle()


def drive(wire, name, topic, engine):
    batch = Batch("query-a", 0, "offsets-0", first_try=True)
    return write_batch(Machine(), uuid4().hex, batch, KafkaStore(wire, name, topic), engine)


@pytest.mark.parametrize("moment", ["rows", "marker"])
def test_forced_under_a_live_driver_no_row_is_lost_or_doubled(
    broker, wire, make_topic, name, command, moment
):
    """The driver finds its transaction gone, sends its blocks again, and commits them once."""
    topic, codes = make_topic(broker), []
    engine = AbortedEngine(wire, topic, named("row", 5))
    engine.at = moment
    force = ["abort", name.transactional_id, "--force", "--yes"]
    engine.meddle = lambda: codes.append(command(*force)[0])
    finished = drive(wire, name, topic, engine)
    assert (finished.outcome, finished.attempts, codes) == (Outcome.COMMITTED, 2, [0])
    assert values(broker.bootstrap_servers, topic) == named("row", 5)


@pytest.mark.parametrize("broker", ["kafka39"], indirect=True)
def test_an_abort_without_a_new_epoch_would_lose_the_batch(
    broker, wire, transactions, make_topic, name
):
    """Why EndTxn is not enough under version 1: the marker is committed, and its rows are not."""
    topic = make_topic(broker)
    engine = AbortedEngine(wire, topic, named("row", 5))

    def meddle():
        seen = look_at(wire, name.transactional_id)
        version = wire.transaction_version()
        identity = Identity(name.transactional_id, seen.producer_id, seen.epoch, version)
        transactions.abort(identity)

    engine.meddle = meddle
    assert drive(wire, name, topic, engine).outcome is Outcome.COMMITTED
    assert values(broker.bootstrap_servers, topic) == []


def test_taking_the_id_instead_would_stop_the_driver(broker, wire, transactions, make_topic, name):
    """What the bare form of InitProducerId does to a live driver: it is fenced for good."""
    topic = make_topic(broker)
    engine = AbortedEngine(wire, topic, named("row", 5))
    engine.meddle = lambda: transactions.own(name.transactional_id)
    with pytest.raises(Fenced):
        drive(wire, name, topic, engine)


def test_only_the_transaction_that_was_seen(broker, wire, transactions, make_topic, name):
    """Where another has taken its place, neither a look nor the coordinator lets it be ended."""
    topic = make_topic(broker)
    write(wire, transactions.own(name.transactional_id), blocks(topic, named("old", 1)))
    seen = look_at(wire, name.transactional_id)
    fresh = transactions.own(name.transactional_id)
    write(wire, fresh, blocks(topic, named("new", 2)))
    for force in (False, True):
        assert aborts.abort(wire, seen, force=force).outcome is aborts.Outcome.ENDED
    transactions.commit(fresh)
    assert values(broker.bootstrap_servers, topic) == named("new", 2)


@on_one_broker
def test_what_is_not_a_sinks_needs_force(broker, wire, transactions, make_topic, command):
    """Another program's may be prepared: left without a watch, ended when forced."""
    topic, foreign = make_topic(broker), f"flink-{uuid4().hex[:8]}"
    write(wire, transactions.own(foreign), blocks(topic, named("prepared", 2)))
    code, said = command("abort", foreign, "--yes")
    assert (code, "an abort loses its rows; --force" in said.out) == (1, True)
    assert is_open(wire, foreign)
    code, said = command("abort", foreign, "--force", "--yes")
    assert (code, "ARE LOST" in said.err) == (0, True)
    assert not is_open(wire, foreign)
    code, said = command("abort", foreign, "--yes")
    assert (code, f"no transaction is open under transactional id {foreign}" in said.out) == (
        0,
        True,
    )
