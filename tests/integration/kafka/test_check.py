"""`twophase check` against real brokers and topics that are set up wrongly, one way at a time."""

import io
import json
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from rich.console import Console
from support.readers import values
from support.rows import blocks, named
from support.sinks import Sink
from support.task_drivers import TaskSinkStage, expected
from support.waiting import wait_until
from support.writing import write

from twophase.cli import progress
from twophase.cli.main import run as command_line
from twophase.commit.naming import SinkName
from twophase.embedded.fetch import fetch_jars
from twophase.kafka.admin import describe_transaction
from twophase.kafka.open_transactions import look_at
from twophase.kafka.transactions import Transactions

on_one_broker = pytest.mark.parametrize("broker", ["kafka"], indirect=True)
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # A resource is everybody's until it has an ACL.
    "allow.everyone.if.no.acl.found": "true",
}
MISCONFIGURED = {
    "transaction.max.timeout.ms": 59_000,
    "transaction.partition.verification.enable": "false",
    "offsets.retention.minutes": 60,
    "transactional.id.expiration.ms": 3_600_000,
}


@pytest.fixture
def check(capsys, tmp_path):
    """Run `twophase check`; return its exit code and its findings by point."""

    def run(servers, sink_id, topic, *more, **options):
        config = tmp_path / "client.properties"
        config.write_text("".join(f"{k.replace('_', '.')}={v}\n" for k, v in options.items()))
        where = ["--bootstrap-server", servers, "--command-config", str(config)]
        what = ["check", "--sink-id", sink_id, "--topic", topic, *more]
        code = command_line([*what, *where, "--output", "json"])
        found = json.loads(capsys.readouterr().out)["findings"]
        return code, {each["point"]: each for each in found}

    return run


@on_one_broker
def test_a_development_broker_is_fit_and_replicates_nothing(
    broker, make_topic, check, capsys, monkeypatch
):
    """All points are ok but replication: exit code 1, and a bar on a terminal meanwhile."""
    topic, sink_id = make_topic(broker, 3), f"new-{uuid4().hex[:8]}"
    code, found = check(broker.bootstrap_servers, sink_id, topic)
    assert code == 1
    group = f"twophase.{sink_id}"
    for point, said in {
        "brokers": "1 of 1 answer",
        "version": "node 1 is Kafka 4.3",
        "transaction.version": "2: every transaction",
        "transaction.partition.verification.enable": "true on every broker",
        "transaction.max.timeout.ms": "900000; the sink's kafka.transaction.timeout.ms is 60000",
        "offsets.retention.minutes": "keeps its marker for 7 days",
        "topic": f"{topic} has 3 partitions",
        f"max.message.bytes of {topic}": "1048588; blocks are cut at 1000000",
        f"rights on topic {topic}": "DESCRIBE, READ, WRITE",
        f"rights on group {group}": "DESCRIBE, READ",
        f"rights on transactional id {group}": "DESCRIBE, WRITE",
        f"sink id {sink_id}": "new",
        f"open transactions on {topic}": "none",
        "spark": "pyspark 4",
    }.items():
        assert (found[point]["level"], said in found[point]["said"]) == ("ok", True), found[point]
    assert found[f"replication of {topic}"]["level"] == "warning"
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(progress, "Console", lambda **_: terminal)
    arguments = ["--sink-id", sink_id, "--topic", topic]
    assert command_line(["check", *arguments, "--bootstrap-server", broker.bootstrap_servers]) == 1
    said = capsys.readouterr().out
    assert "7/7" in screen.getvalue()
    assert f"warning   replication of {topic}: factor 1\n          why: what was ack" in said


@on_one_broker
def test_wrong_topics_and_options(broker, make_topic, check):
    """Each is an error by name, with what to do: exit code 2."""
    servers, sink_id = broker.bootstrap_servers, f"new-{uuid4().hex[:8]}"
    topic = make_topic(broker, min_insync_replicas=2, max_message_bytes=5_000)
    code, found = check(servers, sink_id, topic, transaction_timeout_ms=900_001)
    wrong = {point for point, each in found.items() if each["level"] == "error"}
    assert (code, wrong) == (
        2,
        {f"replication of {topic}", f"max.message.bytes of {topic}", "transaction.max.timeout.ms"},
    )
    assert all(found[point]["why"] and found[point]["do"] for point in wrong)
    code, found = check(servers, sink_id, topic, batch_size=4_000)
    assert found[f"max.message.bytes of {topic}"]["level"] == "warning"
    code, found = check(servers, sink_id, f"{topic}-x")
    assert (code, found["topic"]["said"]) == (2, f"{topic}-x does not exist")


@on_one_broker
def test_without_transactions_only_what_matters_is_wrong(broker, make_topic, check):
    """No timeout of a transaction; replicas that are not in sync, unless the leader is enough."""
    servers, sink_id = broker.bootstrap_servers, f"new-{uuid4().hex[:8]}"
    topic = make_topic(broker, min_insync_replicas=2, max_message_bytes=5_000)
    wrong = {}
    for guarantee in ("at-least-once", "none"):
        asked = (servers, sink_id, topic, "--guarantee", guarantee)
        code, found = check(*asked, transaction_timeout_ms=900_001)
        wrong[guarantee] = {point for point, each in found.items() if each["level"] == "error"}
        assert code == 2
        assert not [point for point in found if "transaction." in point or "__" in point]
    block, replicas = f"max.message.bytes of {topic}", f"replication of {topic}"
    assert wrong == {"at-least-once": {block, replicas}, "none": {block}}
    _, found = check(servers, sink_id, topic, "--guarantee", "none", acks="all")
    assert found[replicas]["level"] == "error"
    assert found[block]["why"].endswith("is given up, and its rows are counted")


@on_one_broker
def test_a_dead_letter_topic(broker, make_topic, check):
    """It exists, takes the rows that are too large for the other, and may be written to."""
    servers, sink_id, topic = broker.bootstrap_servers, f"new-{uuid4().hex[:8]}", make_topic(broker)
    dead = make_topic(broker, 2, max_message_bytes=9_000_000)
    _, found = check(servers, sink_id, topic, "--dead-letter-topic", dead)
    for point, said in {
        "dead-letter topic": f"{dead} has 2 partitions",
        f"max.message.bytes of {dead}": "9000000; dead letters above it are cut",
        f"rights on topic {dead}": "DESCRIBE, WRITE",
    }.items():
        assert (found[point]["level"], found[point]["said"]) == ("ok", said)
    options = {"max_request_size": 9_000_000}
    _, found = check(servers, sink_id, topic, "--dead-letter-topic", dead, **options)
    assert found[f"max.message.bytes of {dead}"]["level"] == "warning"
    code, found = check(servers, sink_id, topic, "--dead-letter-topic", f"{dead}-x")
    assert (code, found["dead-letter topic"]["said"]) == (2, f"{dead}-x does not exist")
    compacted = make_topic(broker, cleanup_policy="compact,delete")
    code, found = check(servers, sink_id, topic, "--dead-letter-topic", compacted)
    point = found[f"cleanup.policy of {compacted}"]
    assert (code, point["level"], point["said"]) == (2, "error", "compact,delete")


def test_a_running_job_is_not_harmed(broker, wire, make_topic, check):
    """Its owner and its open transaction are found, and it commits as if nothing had been."""
    sink = Sink(broker, wire, make_topic(broker))
    sink.start().write(0)
    identity = Transactions(wire).own(sink.name.transactional_id)
    write(wire, identity, blocks(sink.topic, named("open", 2)))
    before = sink.seen(), look_at(wire, sink.name.transactional_id).partitions
    code, found = check(sink.servers, sink.name.sink_id, sink.topic)
    assert (sink.seen(), look_at(wire, sink.name.transactional_id).partitions) == before
    assert code == 1
    assert "query-a owns it" in found[f"sink id {sink.name.sink_id}"]["said"]
    is_open = found[f"open transactions on {sink.topic}"]
    assert sink.name.transactional_id in is_open["said"]
    assert is_open["why"] == "readers in read_committed are up to 2 records behind"
    _, found = check(sink.servers, sink.name.sink_id, make_topic(broker))
    assert f"its marker is in {sink.topic}" in found[f"sink id {sink.name.sink_id}"]["said"]
    Transactions(wire).commit(identity)
    assert values(sink.servers, sink.topic)[-2:] == named("open", 2)


def test_a_batch_by_task_that_is_open_is_not_harmed(broker, make_topic, check, tmp_path):
    """With its tasks' transactions open: each is as it was before, and the batch is committed."""
    stage = TaskSinkStage(broker, make_topic(broker), tmp_path)
    seen = []

    def look(*_):
        names = [*stage.lingering(), stage.name.transactional_id]
        before = [describe_transaction(stage.wire, name) for name in names]
        asked = (stage.parsed.bootstrap_servers[0], stage.name.sink_id, stage.topic)
        _, found = check(*asked, "--scope", "task")
        assert [describe_transaction(stage.wire, name) for name in names] == before
        ids = sorted(point for point in found if point.startswith("rights on transactional id"))
        assert ids == [
            f"rights on transactional id {stage.name.transactional_id}",
            f"rights on transactional id {stage.prefix}0000000000/1",
        ]
        assert found[f"rights on group {stage.prefix}drivers"]["level"] == "ok"
        assert "owns it, started" in found[f"sink id {stage.name.sink_id}"]["said"]
        assert found["transaction.max.timeout.ms"]["level"] == "ok"
        assert "timeout.ms is 900000" in found["transaction.max.timeout.ms"]["said"]
        seen.extend(names)

    stage.driver().write(0, 2, after=look)
    assert len(seen) == 3
    assert stage.values() == expected((0, 2))


def restrict(servers, kind, name):
    """Leave everybody but DESCRIBE on a resource."""
    admin = AdminClient({"bootstrap.servers": servers})
    binding = AclBinding(
        *(kind, name, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*"),
        *(AclOperation.DESCRIBE, AclPermissionType.ALLOW),
    )
    for done in admin.create_acls([binding]).values():
        done.result(30)


@pytest.mark.long
@pytest.mark.parametrize("version", ["4.3.1", "3.9.2"])
def test_a_broker_that_is_wrong_in_every_way(
    version, private_kafka, connect, make_topic, check, capsys, short_watch
):
    """Settings and missing rights are told by name, on both versions, and nothing is changed."""
    cluster = private_kafka(version=version, properties=AUTHORIZER | MISCONFIGURED)
    servers, name = cluster.bootstrap_servers, SinkName("orders")
    topic = make_topic(cluster)
    wire = connect(servers, transaction_timeout_ms=59_000)
    transactions = Transactions(wire)
    identity = transactions.own(name.transactional_id)
    write(wire, identity, blocks(topic, named("row", 2)))
    restrict(servers, ResourceType.TOPIC, topic)
    restrict(servers, ResourceType.GROUP, name.marker_group)
    restrict(servers, ResourceType.TRANSACTIONAL_ID, name.transactional_id)
    found = {}

    def denied():
        found.update(check(servers, name.sink_id, topic)[1])
        return found[f"rights on transactional id {name.transactional_id}"]["level"] == "error"

    wait_until(denied, 20)
    assert found["transaction.max.timeout.ms"]["level"] == "error"
    assert found["offsets.retention.minutes"]["level"] == "warning"
    assert found["transactional.id.expiration.ms"]["level"] == "warning"
    verified = found["transaction.partition.verification.enable"]["level"]
    assert verified == ("ok" if version.startswith("4") else "error")
    assert found[f"rights on topic {topic}"]["said"] == "READ and WRITE missing"
    assert found[f"rights on group {name.marker_group}"]["said"] == "READ missing"
    assert found[f"rights on transactional id {name.transactional_id}"]["said"] == "WRITE missing"
    assert found[f"max.message.bytes of {topic}"]["level"] == "not known"
    # Without READ nobody can tell whether a job writes: it is left alone.
    command = ["transactions", "abort", name.transactional_id, "--watch", short_watch, "--yes"]
    assert command_line([*command, "--bootstrap-server", servers]) == 1
    assert "cannot be seen whether a job writes" in capsys.readouterr().out
    assert look_at(wire, name.transactional_id).epoch == identity.epoch


@pytest.mark.long
def test_three_nodes_as_they_should_be_and_one_of_them_stopped(
    private_kafka, connect, make_topic, check, capsys, short_watch
):
    """All is ok, by exit code 0; transactions of all coordinators are listed; a loss is seen."""
    fetch_jars("spark-kafka-4.2.0")
    cluster = private_kafka(nodes=3)
    servers, topic = cluster.bootstrap_servers, make_topic(cluster, 6)
    code, found = check(servers, "orders", topic)
    assert (code, [each for each in found.values() if each["level"] != "ok"]) == (0, [])
    assert found["brokers"]["said"] == "3 of 3 answer"
    wire = connect(servers)
    transactions, names = Transactions(wire), [f"twophase.orders/{n}" for n in range(8)]
    for number, name in enumerate(names):
        place = number % 6
        write(wire, transactions.own(name), blocks(topic, named(name, 2), partition=place))
    where = ["--bootstrap-server", servers]
    assert command_line(["transactions", "list", *where, "--output", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)["transactions"]
    assert sorted(each["transactional_id"] for each in listed) == names
    held = {each["transactional_id"]: each["partitions"] for each in listed}
    assert [held[name][0]["holds"] for name in names] == [True] * 6 + [False] * 2
    lingering = ["transactions", "abort", "--lingering", "--sink-id", "orders"]
    assert command_line([*lingering, "--watch", short_watch, "--yes", *where]) == 0
    assert capsys.readouterr().out.count(": aborted: ") == len(names)
    cluster.nodes[2].kill()

    def noticed():
        left = ",".join(node.address for node in cluster.nodes[:2])
        found.update(check(left, "orders", topic)[1])
        return found[f"replication of {topic}"]["level"] == "warning"

    wait_until(noticed, 60)
    assert "2 in sync" in found[f"replication of {topic}"]["said"]
