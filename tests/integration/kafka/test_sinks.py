"""The commands that resolve a refusal, on a real broker: what the error says, run as it says it."""

import io
import json
import sys
from datetime import datetime, timedelta

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from support.rows import blocks
from support.sinks import Sink, batches, hash_of, overwrite
from support.waiting import wait_until
from support.writing import write

from twophase.commit.effects import Outcome
from twophase.commit.naming import SinkName
from twophase.errors import (
    CheckpointBehind,
    Fenced,
    MarkerMissing,
    MarkerUnreadable,
    OffsetsChanged,
    OwnedByAnother,
    RecoveryError,
)
from twophase.kafka.admin import describe_transaction
from twophase.kafka.founding import time_limit_ms
from twophase.kafka.groups import delete_group, offsets_of_group
from twophase.kafka.sink_state import look
from twophase.kafka.transactions import Transactions

# What no protocol version changes is shown on one broker.
on_one_broker = pytest.mark.parametrize("broker", ["kafka"], indirect=True)


@pytest.fixture
def sink(broker, wire, make_topic):
    return Sink(broker, wire, make_topic(broker))


# Each refusal of the table, by the command that its message ends with.


def test_a_missing_marker_of_a_batch_that_is_there(sink):
    """Said to be in the topic, it is skipped, and the query goes on after it."""
    sink.start().write(0)
    delete_group(sink.wire, sink.name.marker_group)
    there, _ = sink.refused(MarkerMissing, sink.start(), 0)
    sink.resolve(there)
    again = sink.start()
    assert again.write(0) is Outcome.SKIPPED
    assert again.write(1) is Outcome.COMMITTED
    assert sink.values() == batches(0, 1)


def test_a_missing_marker_of_a_batch_that_is_not_there(sink):
    """Said not to be in the topic, it is written, and known again after a restart."""
    sink.start().write(0)
    delete_group(sink.wire, sink.name.marker_group)
    _, not_there = sink.refused(MarkerMissing, sink.start(), 1)
    sink.resolve(not_there)
    assert sink.start().write(1) is Outcome.COMMITTED
    assert sink.start().write(1) is Outcome.SKIPPED
    assert sink.values() == batches(0, 1)


def test_an_unreadable_marker(sink):
    """What a tool left in its place is overwritten by either answer, as told."""
    sink.start().write(0)
    overwrite(sink, '["no", "marker"]')
    there, _ = sink.refused(MarkerUnreadable, sink.start(), 0)
    sink.resolve(there)
    assert sink.start().write(0) is Outcome.SKIPPED
    overwrite(sink, "")
    _, not_there = sink.refused(MarkerUnreadable, sink.start(), 1)
    sink.resolve(not_there)
    assert sink.start().write(1) is Outcome.COMMITTED
    assert sink.values() == batches(0, 1)


def test_a_sink_is_handed_over(sink):
    """The named query goes on with its own batches, and the old owner is refused from then on."""
    sink.start().write(0)
    (hand_over,) = sink.refused(OwnedByAnother, sink.start("query-b"), 0)
    sink.resolve(hand_over)
    assert sink.start("query-b").write(0) is Outcome.COMMITTED
    with pytest.raises(OwnedByAnother, match="query-b"):
        sink.start().write(1)
    assert sink.values() == batches(0) + batches(0, owner="query-b")


def test_a_checkpoint_that_is_behind(sink, capsys):
    """What the topic has is shown; told to go on all the same, the sink doubles as it said."""
    run = sink.start()
    for number in range(3):
        run.write(number)
    show, go_on = sink.refused(CheckpointBehind, sink.start(), 1)
    assert sink.command(*show) == 0
    assert f"query-a owns {sink.topic}, batch 2 is the last in the topic" in capsys.readouterr().out
    sink.resolve(go_on)
    assert "those after 0 are written again" in capsys.readouterr().err
    again = sink.start()
    assert [again.write(1), again.write(2)] == [Outcome.COMMITTED] * 2
    assert sink.values() == batches(0, 1, 2, 1, 2)


@pytest.mark.parametrize(("answer", "outcome"), [(0, Outcome.SKIPPED), (1, Outcome.COMMITTED)])
def test_a_batch_that_was_planned_anew(sink, answer, outcome):
    """Skipped or written, as the person chose; the hash in the message is the present plan's."""
    sink.start().write(0)
    commands = sink.refused(OffsetsChanged, sink.start(), 0, planned="anew")
    sink.resolve(commands[answer])
    assert sink.start().write(0, planned="anew") is outcome
    assert sink.values() == batches(*[0] * (answer + 1))


def test_a_run_of_a_batch_job(sink, capsys):
    """Its marker is its own: the run is done or not, as told, and the sink has no such marker."""
    sink.name = SinkName(sink.name.sink_id, "nightly-7")
    sink.start("run").write(0)
    delete_group(sink.wire, sink.name.marker_group)
    there, not_there = sink.refused(MarkerMissing, sink.start("run"), 0)
    sink.resolve(there)
    assert sink.start("run").write(0) is Outcome.SKIPPED
    assert sink.command("show", sink.name.sink_id, "--run", "nightly-7") == 0
    assert "the run is done and writes nothing" in capsys.readouterr().out
    assert sink.command("show", sink.name.sink_id) == 3
    sink.resolve(not_there)
    assert sink.start("run").write(0) is Outcome.COMMITTED
    assert sink.values() == batches(0, 0, owner="run")


# Asking.


class Terminal(io.StringIO):
    """A person who has typed an answer."""

    def isatty(self):
        return True


@on_one_broker
@pytest.mark.parametrize("stdin", [Terminal("n\n"), Terminal("\n"), Terminal(""), io.StringIO("y")])
@pytest.mark.parametrize("verb", ["adopt", "reset"])
def test_without_a_yes_nothing_is_changed(sink, verb, stdin, monkeypatch, capsys):
    """No, nothing typed, or no terminal: marker, producer id and epoch are as before."""
    stdin.seek(0)
    sink.start().write(0)
    before = sink.seen()
    monkeypatch.setattr(sys, "stdin", stdin)
    more = ["--owner", "query-b", "--not-committed", "0"] if verb == "adopt" else []
    assert sink.command(verb, sink.name.sink_id, *more) == 1
    said = capsys.readouterr()
    assert "nothing was changed" in said.err
    assert ("--yes" in said.err) is not isinstance(stdin, Terminal)
    assert said.out == ""
    assert sink.seen() == before


@on_one_broker
def test_a_yes_is_asked_for_on_stderr(sink, monkeypatch, capsys):
    """Before and after and the risks come first; stdout holds the result alone."""
    sink.start().write(0)
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    adopt = ["adopt", sink.name.sink_id, "--owner", "query-b", "--not-committed", "3"]
    assert sink.command(*adopt, "--output", "json") == 0
    said = capsys.readouterr()
    assert said.err.endswith("Go on? [y/N] ")
    for part in (
        "now:   query-a owns",
        "if batch 3 is in the topic",
        "taken from query-a",
        "FENCED",
    ):
        assert part in said.err
    done = json.loads(said.out)
    assert done["changed"] is True
    assert (done["before"]["marker"]["owner"], done["before"]["marker"]["batch"]) == ("query-a", 0)
    assert (done["after"]["marker"]["owner"], done["after"]["marker"]["batch"]) == ("query-b", 2)


# show


@on_one_broker
def test_show_has_stable_keys(sink, capsys):
    """Programs may rely on them; nothing is changed by looking."""
    sink.start().write(0)
    before = sink.seen()
    assert sink.command("show", sink.name.sink_id, "--output", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert sink.seen() == before
    assert list(shown) == [
        *("sink_id", "run_id", "name", "exists", "marker", "transactional_id", "next_start"),
        "marker_expires",
    ]
    assert list(shown["marker"]) == [
        *("state", "topic", "owner", "batch", "offsets", "rows", "bytes", "time", "why")
    ]
    assert list(shown["transactional_id"]) == [
        *("state", "producer_id", "epoch", "open_ms", "open_partitions", "timeout_ms")
    ]
    marker = shown["marker"]
    assert (marker["state"], marker["topic"], marker["owner"]) == (
        "readable",
        sink.topic,
        "query-a",
    )
    assert (marker["batch"], marker["rows"], marker["offsets"]) == (0, 3, hash_of(0))
    assert shown["transactional_id"]["epoch"] == before[2]
    written, expires = (
        datetime.fromisoformat(text) for text in (marker["time"], shown["marker_expires"])
    )
    assert expires - written == timedelta(days=7)  # Kafka's offsets.retention.minutes.


@on_one_broker
def test_list_has_every_sink_and_run(sink, broker, make_topic, capsys):
    """By its id, its marker or both, and those whose state cannot be told; nothing is changed."""
    sink.start().write(0)
    before = sink.seen()
    run = Sink(broker, sink.wire, sink.topic)
    run.name = SinkName(sink.name.sink_id, "nightly-7")
    run.start("run").write(0)
    without_marker = Sink(broker, sink.wire, sink.topic)
    identity = Transactions(sink.wire).own(without_marker.name.transactional_id)
    write(sink.wire, identity, blocks(sink.topic, [b"open"]))
    doubtful = Sink(broker, sink.wire, sink.topic)
    for topic in (sink.topic, make_topic(broker)):
        overwrite(Other(doubtful, topic), "no marker")
    assert sink.command("list", "--output", "json") == 0
    found = {
        (row["sink_id"], row["run_id"]): row for row in json.loads(capsys.readouterr().out)["sinks"]
    }
    assert found[sink.name.sink_id, None]["state"]["marker"]["owner"] == "query-a"
    assert found[sink.name.sink_id, "nightly-7"]["state"]["marker"]["rows"] == 3
    assert found[without_marker.name.sink_id, None]["state"]["transactional_id"]["open_ms"] >= 0
    assert "say with --topic" in found[doubtful.name.sink_id, None]["why"]
    assert sink.command("list") == 0
    said = capsys.readouterr().out
    assert (
        f"{sink.name.sink_id} --run nightly-7\n  run owns {sink.topic}, batch 0 is the last" in said
    )
    assert "  transactional id Ongoing, open for " in said
    assert sink.seen() == before
    Transactions(sink.wire).abort(identity)


@on_one_broker
def test_show_says_what_is_unreadable(sink, capsys):
    """Whatever a tool wrote is shown as it is, in any form of output."""
    sink.start().write(0)
    overwrite(sink, '["[/red]"]')
    assert sink.command("show", sink.name.sink_id) == 0
    said = capsys.readouterr().out
    assert 'is unreadable: it is not JSON: \'["[/red]"]' in said
    assert "TWOPHASE_MARKER_UNREADABLE" in said


@on_one_broker
def test_a_sink_that_is_not_there(sink, capsys):
    """Show says so by its exit code, adopt asks for the topic, reset refuses; nothing is made."""
    nobody = sink.name.sink_id
    assert sink.command("show", nobody) == 3
    assert sink.command("reset", nobody, "--yes") == 1
    assert "there is no sink" in capsys.readouterr().err
    assert sink.command("adopt", nobody, "--owner", "q", "--not-committed", "1", "--yes") == 1
    assert "give --topic" in capsys.readouterr().err
    wrong = ["--topic", f"{sink.topic}-x", "--not-committed", "1", "--yes"]
    assert sink.command("adopt", nobody, "--owner", "q", *wrong) == 1
    assert "does not exist" in capsys.readouterr().err
    assert describe_transaction(sink.wire, sink.name.transactional_id) is None


@on_one_broker
def test_several_topics_in_the_group(sink, broker, make_topic, capsys):
    """A marker among other offsets is found; among several markers the topic must be named."""
    sink.start().write(0)
    other = make_topic(broker)
    adopt = ["adopt", sink.name.sink_id, "--topic", other, "--owner", "q", "--not-committed", "0"]
    sink.command(*adopt)
    assert f"has offsets in {sink.topic} and none in {other}" in capsys.readouterr().err
    overwrite(Other(sink, other), "not a marker")
    assert sink.look().marker.topic == sink.topic
    sink.resolve(adopt)
    assert sink.command("show", sink.name.sink_id) == 1
    assert "say with --topic" in capsys.readouterr().err
    assert look(sink.wire, sink.name, other).marker.batch == -1
    assert look(sink.wire, sink.name, sink.topic).marker.batch == 0


@on_one_broker
def test_a_marker_that_went_with_its_topic(sink, capsys):
    """The group is left without offsets, which looks like hidden ones: the topic must be named."""
    sink.start().write(0)
    admin = AdminClient({"bootstrap.servers": sink.servers})
    admin.delete_topics([sink.topic])[sink.topic].result(timeout=30)
    wait_until(lambda: not offsets_of_group(sink.wire, sink.name.marker_group, stable=False))
    assert sink.command("show", sink.name.sink_id) == 1
    assert "whether the sink has a marker is not known; say with --topic" in capsys.readouterr().err
    assert sink.command("show", sink.name.sink_id, "--topic", sink.topic) == 0
    assert f"no marker in {sink.topic}" in capsys.readouterr().out
    sink.resolve(["reset", sink.name.sink_id, "--topic", sink.topic])


class Other:
    """The same group in another topic."""

    def __init__(self, sink, topic):
        self.servers, self.name, self.topic = sink.servers, sink.name, topic


# reset


def test_a_sink_that_was_forgotten_is_new(sink):
    """Any query starts at batch 0, also by a replay; a driver from before is fenced."""
    running = sink.start()
    running.write(0)
    sink.resolve(["reset", sink.name.sink_id])
    with pytest.raises(Fenced):
        running.write(1)
    assert sink.start("query-b").write(0) is Outcome.COMMITTED
    assert sink.start("query-b").write(0) is Outcome.SKIPPED
    assert sink.values() == batches(0) + batches(0, owner="query-b")


def test_forgetting_needs_more_than_a_deleted_marker(sink):
    """A reset that dies half-way leaves a founded id without a marker, and no query starts so."""
    sink.start().write(0)
    founded_ms = time_limit_ms(60_000, founded=True)
    Transactions(sink.wire).own(sink.name.transactional_id, timeout_ms=founded_ms)
    delete_group(sink.wire, sink.name.marker_group)
    with pytest.raises(MarkerMissing):
        sink.start("query-b").write(0)
    sink.resolve(["reset", sink.name.sink_id])
    assert sink.start("query-b").write(0) is Outcome.COMMITTED


def test_a_consumer_in_the_group_is_in_the_way(sink, capsys):
    """Kafka deletes no group with members: it is named, and the marker stays."""
    sink.start().write(0)
    settings = {"group.id": sink.name.marker_group, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": sink.servers, **settings})
    try:
        consumer.subscribe([sink.topic])
        for _ in range(300):
            consumer.poll(0.1)
            if consumer.assignment():
                break
        assert sink.command("reset", sink.name.sink_id, "--yes") == 1
    finally:
        consumer.close()
    assert "no consumer may be a member" in capsys.readouterr().err
    assert sink.look().marker.batch == 0


def test_every_refusal_is_one_of_these():
    """A new kind of refusal needs its command here; a decision log is no matter of these."""
    resolved = {MarkerMissing, MarkerUnreadable, OwnedByAnother, CheckpointBehind, OffsetsChanged}
    kinds = {kind.__name__ for kind in RecoveryError.__subclasses__()}
    log = {"LogCorrupt", "LogVersionUnsupported"}
    assert kinds - {kind.__name__ for kind in resolved} - log == {"WrongBatch"}
