"""Least privilege: exactly the rights of docs/security.md are enough, and each one is needed."""

import re
from uuid import uuid4

import pytest
from integration.security.conftest import COMMANDS
from support.rights import command_rights, in_batch_scope, names, rights_of
from support.rows import blocks, named
from support.secured import Right
from support.sinks import Run, batches
from support.task_drivers import StageDriver, expected
from support.writing import write

from twophase.commit.attempts import prefix_of
from twophase.commit.naming import SinkName
from twophase.errors import AccessDenied, TwoPhaseError
from twophase.kafka.admin import describe_transaction
from twophase.kafka.idempotent import idempotent_producer
from twophase.kafka.sender import Sender
from twophase.kafka.store import KafkaStore
from twophase.kafka.task_sink import KafkaTaskSink
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire

both_versions = pytest.mark.parametrize("secured", ["4.3.1", "3.9.2"], indirect=True)


@pytest.fixture
def connect_as_admin(super_user):
    with Wire(super_user.options) as wire:
        yield wire


@pytest.mark.long
@pytest.mark.parametrize("secured", ["3.9.2"], indirect=True)
def test_batch_scope_needs_the_same_under_version_1(super_user, etl_wire):
    """Partitions and groups are added by requests of their own there."""
    in_batch_scope(super_user, etl_wire)


@pytest.mark.long
@both_versions
def test_batch_jobs_need_these_and_no_more(super_user, etl_wire, etl_options, tmp_path):
    """Whatever the run is called; each missing one is named, and the run is written after."""
    topic, sink_id = super_user.make_topic(), f"job-{uuid4().hex[:8]}"
    rights = rights_of("batch job", topic=topic, sink=sink_id)
    super_user.grant("etl", *rights)
    for number, right in enumerate(rights):
        job = Run(etl_wire, SinkName(sink_id, f"run-{number}"), topic, "run")
        super_user.revoke("etl", right)
        with pytest.raises(AccessDenied) as caught:
            job.write(0)
        assert names(right, caught.value), f"{right}: {caught.value}"
        super_user.grant("etl", right)
        job.write(0)
    assert super_user.values(topic) == batches(0, owner="run") * len(rights)
    # In task scope they are enough as well.
    stage = _Stage(SinkName(sink_id, "run-by-task"), tmp_path)
    StageDriver(stage, KafkaTaskSink(etl_options, topic, topic), {}).write(0, 2)
    assert super_user.values(topic)[-2:] == [b"0", b"1"]


@pytest.mark.long
@both_versions
def test_a_marker_topic_needs_read_and_the_others_write(super_user, etl_wire):
    """And neither of them more."""
    topic, marker = super_user.make_topic(), super_user.make_topic()
    name = SinkName(f"sink-{uuid4().hex[:8]}")
    listed = rights_of("batch scope", topic=topic, sink=name.sink_id)
    others = [right for right in listed if right.kind != "topic"]
    super_user.grant("etl", Right("WRITE", "topic", topic), Right("READ", "topic", marker), *others)
    run = Run(etl_wire, name, topic, "query-a")
    run.store = KafkaStore(etl_wire, name, marker)
    run.write(0)
    run.write(1)
    assert super_user.values(topic) == batches(0, 1)


@pytest.mark.long
@both_versions
def test_a_right_that_goes_while_the_transaction_is_open(super_user, etl_wire):
    """The commit is refused by name; the batch is written once, after the grant."""
    topic, name = super_user.make_topic(), SinkName(f"sink-{uuid4().hex[:8]}")
    rights = rights_of("batch scope", topic=topic, sink=name.sink_id)
    super_user.grant("etl", *rights)
    run = Run(etl_wire, name, topic, "query-a")
    run.write(0)
    write_id = next(right for right in rights if right.kind == "transactional id")
    commit = run.store.commit

    def too_late(identity):
        super_user.revoke("etl", write_id)
        return commit(identity)

    run.store.commit = too_late
    with pytest.raises(TwoPhaseError) as caught:
        run.write(1)
    assert names(write_id, caught.value), caught.value
    super_user.grant("etl", write_id)
    run.store.commit = commit
    run.write(1)
    run.write(2)
    assert super_user.values(topic) == batches(0, 1, 2)
    assert not describe_transaction(etl_wire, name.transactional_id).is_open


class _Stage:
    """What a driver of task scope needs of its stage."""

    def __init__(self, name, folder):
        self.prefix, self.folder = prefix_of(name), folder


@pytest.mark.long
@both_versions
def test_task_scope_needs_these_and_no_more(super_user, etl_options, tmp_path):
    """The same, with the ids of all tasks: nothing lost, nothing doubled, nothing left open."""
    topic, name = super_user.make_topic(), SinkName(f"task-{uuid4().hex[:8]}")
    rights = rights_of("task scope", topic=topic, sink=name.sink_id)
    super_user.grant("etl", *rights)
    stage = _Stage(name, tmp_path)

    def driver():
        return StageDriver(stage, KafkaTaskSink(etl_options, topic, topic), {})

    driver().write(0, 2)
    for number, right in enumerate(rights, start=1):
        super_user.revoke("etl", right)
        refused = driver()
        with pytest.raises(TwoPhaseError) as caught:
            refused.write(number, 2)
        assert names(right, caught.value), f"{right}: {caught.value}"
        super_user.grant("etl", right)
        driver().write(number, 2, first_try=False)
    found = sorted(int(value) for value in super_user.values(topic))
    assert found == expected(*((number, 2) for number in range(len(rights) + 1)))


def send(options, topic):
    """Send three rows outside of a transaction."""
    with Wire(options) as wire:
        sender = Sender(wire, idempotent_producer(wire))
        for block in blocks(topic, named("row", 3)):
            sender.send(block)
        sender.flush()


@pytest.mark.long
@both_versions
def test_without_a_transaction_write_is_enough(super_user, etl_options):
    """At-least-once has no marker and no id."""
    topic = super_user.make_topic()
    (right,) = rights_of("at-least-once", topic=topic)
    super_user.grant("etl", right)
    send(etl_options, topic)
    super_user.revoke("etl", right)
    with pytest.raises(AccessDenied) as caught:
        send(etl_options, topic)
    assert names(right, caught.value), caught.value
    assert super_user.values(topic) == named("row", 3)


def refused(name, right, said, **given):
    """Whether a command's exit code and output show that it goes without a right."""
    code, out, err = said
    topic = given["topic"]
    if name == "check":
        point = f"rights on {right.kind} {right.name}: {right.operation}"
        lines = [line for line in out.splitlines() if line.startswith("error ") and point in line]
        return code == 2 and any("missing" in line for line in lines)
    if name == "sinks list":
        (about,) = re.findall(rf"^{given['sink']}\n(  not known: .*)$", out, re.MULTILINE) or [""]
        hidden = right.kind == "topic" and "in a topic that this user may DESCRIBE" in about
        return code == 0 and bool(hidden or names(right, about))
    if name == "transactions list" and right.kind == "topic":
        return code == 0 and f"  {topic}-0: holds readers back at offset" not in out
    if name == "transactions abort" and right.kind == "topic":
        return code == 1 and ": left open: it cannot be seen whether a job writes" in out
    return code == 1 and bool(names(right, err))


@pytest.mark.long
@both_versions
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_needs_these_and_no_more(super_user, command, connect_as_admin, name):
    """Exactly what the page lists is enough; each missing one is named, or said to be unseen."""
    topic, sink = super_user.make_topic(), SinkName(f"sink-{uuid4().hex[:8]}")
    given = {"topic": topic, "sink": sink.sink_id}
    Run(connect_as_admin, sink, topic, "query-a").write(0)
    if name.startswith("transactions"):
        identity = Transactions(connect_as_admin).own(sink.transactional_id)
        write(connect_as_admin, identity, blocks(topic, named("open", 2)))
    rights = command_rights(**given)[name]
    super_user.grant("etl", *rights)
    for right in rights:
        super_user.revoke("etl", right)
        said = command(name, **given)
        assert refused(name, right, said, **given), f"{right}: {said}"
        super_user.grant("etl", right)
    said = command(name, **given)
    assert said[0] == (2 if name == "check" else 0), said
    assert not [str(right) for right in rights if refused(name, right, said, **given)], said
    super_user.revoke("etl", *rights)


@pytest.mark.parametrize("less", [(), ("DESCRIBE",)])
def test_what_cannot_be_seen_to_stand_still_is_not_aborted(
    super_user, command, connect_as_admin, less
):
    """Without READ on the topic the open transaction of a live job is left, and it commits."""
    topic, sink = super_user.make_topic(), SinkName(f"sink-{uuid4().hex[:8]}")
    given = {"topic": topic, "sink": sink.sink_id}
    transactions = Transactions(connect_as_admin)
    identity = transactions.own(sink.transactional_id)
    write(connect_as_admin, identity, blocks(topic, named("live", 2)))
    rights = [Right("WRITE", "transactional id", sink.transactional_id)]
    rights += [Right(operation, "topic", topic) for operation in less]
    super_user.grant("etl", *rights)
    code, out, _ = command("transactions abort", **given)
    assert (code, ": left open: it cannot be seen" in out) == (1, True), out
    _, out, _ = command("transactions list", **given)
    assert f"{sink.transactional_id}: Ongoing" in out
    assert ("READ on the topic tells" in out) is bool(less)
    transactions.commit(identity)
    assert super_user.values(topic) == named("live", 2)
    super_user.revoke("etl", *rights)
