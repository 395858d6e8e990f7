"""The commands that resolve a refusal, with drivers, open transactions and losses meanwhile."""

import json

import pytest
from support.engines import RowsEngine
from support.rows import named as rows_named
from support.sinks import Sink, batches

from twophase.commit.effects import Outcome
from twophase.errors import Fenced
from twophase.kafka import sinks
from twophase.kafka.groups import delete_group
from twophase.kafka.offsets import CommittedOffset, write_offsets
from twophase.kafka.store import KafkaStore
from twophase.kafka.transactions import Transactions
from twophase.verify.proxy import ApiKey, KafkaProxy

# What no protocol version changes is shown on one broker.
on_one_broker = pytest.mark.parametrize("broker", ["kafka"], indirect=True)


@pytest.fixture
def sink(broker, wire, make_topic):
    return Sink(broker, wire, make_topic(broker))


def test_a_driver_that_runs_is_fenced_by_an_adoption(sink):
    """It writes nothing more, and the next one goes on from what was said."""
    running = sink.start()
    running.write(0)
    sink.resolve(["adopt", sink.name.sink_id, "--owner", "query-a", "--not-committed", "1"])
    for _ in range(2):
        with pytest.raises(Fenced):
            running.write(1)
    assert sink.start().write(1) is Outcome.COMMITTED
    assert sink.values() == batches(0, 1)


@pytest.mark.parametrize("verb", ["adopt", "reset"])
def test_an_open_transaction_is_aborted(sink, verb, capsys):
    """Its rows and its marker never become visible; show names it and waits for nothing."""
    sink.start().write(0)
    left_open(sink)
    assert sink.command("show", sink.name.sink_id, "--output", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["transactional_id"]["state"] == "Ongoing"
    assert f"{sink.topic}-0" in shown["transactional_id"]["open_partitions"]
    assert shown["marker"]["batch"] == 0
    more = ["--owner", "query-a", "--not-committed", "1"] if verb == "adopt" else []
    sink.resolve([verb, sink.name.sink_id, *more])
    assert "it is aborted" in capsys.readouterr().err
    assert sink.look().transactional_id.open_ms is None
    assert sink.values() == batches(0)


def left_open(sink):
    """Write rows and a marker as a driver does that dies before its commit."""
    identity = Transactions(sink.wire).own(sink.name.transactional_id)
    engine = RowsEngine(sink.wire, sink.topic, rows_named("never", 3))
    engine.send(identity, engine.prepare(1))
    place = {(sink.topic, 0): CommittedOffset(3, "never")}
    write_offsets(sink.wire, identity, sink.name.marker_group, place)


ADOPTION = sinks.Adoption("query-a", 1, None)


def planned(sink, verb):
    """What the command shows before it asks."""
    if verb == "adopt":
        return sinks.plan_adopt(sink.wire, sink.name, None, ADOPTION)
    return sinks.plan_reset(sink.wire, sink.name, None)


def carried_out(sink, verb, plan):
    """What it does after a yes."""
    if verb == "adopt":
        return sinks.adopt(sink.wire, plan, ADOPTION)
    return sinks.reset(sink.wire, plan)


@pytest.mark.parametrize("verb", ["adopt", "reset"])
def test_a_marker_that_moved_is_not_overwritten(sink, verb):
    """A batch that is committed between the question and the answer is not forgotten."""
    running = sink.start()
    running.write(0)
    plan = planned(sink, verb)
    running.write(1)
    done = carried_out(sink, verb, plan)
    assert not done.changed
    assert "batch 0 when it was shown and is of batch 1 now" in done.reason
    assert sink.start().write(1) is Outcome.SKIPPED
    assert sink.values() == batches(0, 1)


@on_one_broker
def test_without_the_second_look_a_batch_is_doubled(sink, monkeypatch):
    """The look after the id was taken is what keeps a batch of the last moment."""
    running = sink.start()
    running.write(0)
    plan = planned(sink, "adopt")
    running.write(1)
    monkeypatch.setattr(sinks, "_moved", lambda *_: None)
    assert carried_out(sink, "adopt", plan).changed
    assert sink.start().write(1) is Outcome.COMMITTED
    assert sink.values() == batches(0, 1, 1)


def rival_comes(sink, verb, monkeypatch):
    """Let a driver take the sink and write batch 1 just before a command's last step."""
    rival = sink.start()
    if verb == "adopt":
        write = KafkaStore.write_marker

        def write_late(store, identity, effect):
            monkeypatch.setattr(KafkaStore, "write_marker", write)
            rival.write(1)
            return write(store, identity, effect)

        monkeypatch.setattr(KafkaStore, "write_marker", write_late)
    else:

        def delete_early(wire, group):
            delete_group(wire, group)
            rival.write(1, first_try=True)

        monkeypatch.setattr(sinks, "delete_group", delete_early)
    return rival


@pytest.mark.parametrize("verb", ["adopt", "reset"])
def test_a_driver_that_comes_meanwhile_keeps_the_sink(sink, verb, monkeypatch):
    """Whoever takes the id after us owns it: we say so, and its marker stays."""
    sink.start().write(0)
    plan = planned(sink, verb)
    rival = rival_comes(sink, verb, monkeypatch)
    with pytest.raises(Fenced, match="while it was being"):
        carried_out(sink, verb, plan)
    assert rival.write(2) is Outcome.COMMITTED
    assert sink.values() == batches(0, 1, 2)


@on_one_broker
def test_taken_by_the_bare_form_a_reset_would_stop_the_new_driver(sink, monkeypatch):
    """Asked without producer id and epoch, the broker gives the id to whoever asks last."""
    sink.start().write(0)
    plan = planned(sink, "reset")
    rival = rival_comes(sink, "reset", monkeypatch)

    def bare(transactions, identity, *, timeout_ms):
        return transactions.own(identity.transactional_id, timeout_ms=timeout_ms)

    monkeypatch.setattr(Transactions, "reacquire", bare)
    assert carried_out(sink, "reset", plan).changed
    monkeypatch.undo()
    with pytest.raises(Fenced):
        rival.write(2)


@pytest.mark.parametrize("verb", ["adopt", "reset"])
@pytest.mark.parametrize("direction", ["request", "response"])
def test_a_lost_message_of_any_kind(sink, verb, direction, broker, connect):
    """Each kind of request, or its answer, is lost once: the command does what it said, once."""
    sink.start().write(0)
    with KafkaProxy(broker.proxied) as proxy:
        far = Sink(broker, connect(proxy.bootstrap_servers, request_timeout_ms=1_000), sink.topic)
        far.name = sink.name
        plan = planned(far, verb)
        lost = [proxy.on(api, direction).cut() for api in USED[verb]]
        assert carried_out(far, verb, plan).changed
        assert [caught.count for caught in lost] == [1] * len(lost)
    if verb == "adopt":
        assert sink.start().write(1) is Outcome.COMMITTED
        assert sink.values() == batches(0, 1)
    else:
        assert sink.start("query-b").write(0) is Outcome.COMMITTED
        assert sink.values() == batches(0) + batches(0, owner="query-b")


_LOOK = (ApiKey.INIT_PRODUCER_ID, ApiKey.OFFSET_FETCH, ApiKey.DESCRIBE_TRANSACTIONS)
USED = {
    "adopt": (*_LOOK, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN),
    "reset": (*_LOOK, ApiKey.DELETE_GROUPS),
}


@on_one_broker
def test_a_commit_that_is_never_answered(sink, broker, connect):
    """The answers to EndTxn are lost until we give up asking: the marker itself is the answer."""
    sink.start().write(0)
    with KafkaProxy(broker.proxied) as proxy:
        wire = connect(proxy.bootstrap_servers, request_timeout_ms=1_000, max_block_ms=3_000)
        plan = planned(sink, "adopt")
        lost = proxy.on(ApiKey.END_TXN, "response").cut(times=None)
        assert sinks.adopt(wire, plan, ADOPTION).changed
    assert lost.count >= 1
    assert sink.start().write(1) is Outcome.COMMITTED
    assert sink.values() == batches(0, 1)
