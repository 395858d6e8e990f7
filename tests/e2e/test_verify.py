"""`twophase verify` on a real cluster: clean, or harm found, and nothing left behind."""

import json
import signal
import subprocess
import sys

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from support.waiting import wait_until
from support.watched import BROKER, EXECUTOR, Watched

VERIFY = [sys.executable, "-m", "twophase", "verify"]
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # A resource is everybody's until it has an ACL.
    "allow.everyone.if.no.acl.found": "true",
}

pytestmark = pytest.mark.long


def verified(cluster, *arguments):
    """Run the command; return exit code, what it found, and stderr."""
    done = subprocess.run(
        [*VERIFY, "--bootstrap-server", cluster.bootstrap_servers, "--output", "json", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=280,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout or "null"), done.stderr


def counts(found):
    """How often each kind was found."""
    return {each["kind"]: each["count"] for each in found["verdict"]["findings"]}


def in_cluster(cluster):
    """All topics and groups that are there, without those that Kafka makes for itself."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    groups = admin.list_consumer_groups().result(30).valid
    topics = {name for name in admin.list_topics(timeout=30).topics if not name.startswith("__")}
    return topics, {each.group_id for each in groups}


def test_nothing_is_lost_and_nothing_is_left(kafka, make_topic, tmp_path):
    """Killed in the middle of batches: exit code 0, a report, and the cluster as it was."""
    make_topic(kafka)
    before = in_cluster(kafka)
    report = tmp_path / "proof.html"
    arguments = ["--for", "30s", "--rate", "500", "--partitions", "3"]
    code, found, told = verified(
        kafka, *arguments, "--faults", "kill-driver", "--report", str(report)
    )
    assert code == 0, (found, told)
    assert found["said"] == "ok: nothing was lost, doubled, torn, reordered or left open"
    assert found["verdict"]["rows_in"] == found["verdict"]["rows_out"] == 15_000
    assert set(counts(found).values()) == {0}
    assert found["faults"]["kill-driver"] >= 1
    assert found["restarts"] >= found["faults"]["kill-driver"]
    assert found["deleted"] == [f"{found['prefix']}-in", f"{found['prefix']}-out"]
    assert found["left"] == []
    assert f"prefix {found['prefix']}" in told
    wait_until(lambda: in_cluster(kafka) == before)
    page = report.read_text()
    assert page.count("<svg") == 3
    assert "kill -9" in page


def test_harm_is_found(kafka):
    """The same kills, and a sink that promises less: doubled rows, and exit code 1."""
    code, found, told = verified(
        kafka,
        *("--for", "40s", "--rate", "2000", "--faults", "kill-driver"),
        *("--guarantee", "at-least-once"),
    )
    assert code == 1, (found, told)
    harm = counts(found)
    assert harm["duplicate"] > 0
    assert harm["lost"] == 0
    assert found["said"].startswith("NOT OK: duplicate")
    assert found["left"] == []


def test_interrupted(kafka):
    """Ctrl-C in the middle: exit code 130, and its topics are gone."""
    before = in_cluster(kafka)
    process = subprocess.Popen(
        [*VERIFY, "--bootstrap-server", kafka.bootstrap_servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        said = process.stderr.readline()
        prefix = said.split()[1].rstrip(":")
        wait_until(lambda: f"{prefix}-out" in in_cluster(kafka)[0], 60)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "Traceback" not in told
    assert "interrupted" in told
    wait_until(lambda: in_cluster(kafka)[0] == before[0])


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (ResourceType.TOPIC, "see the topics twophase-verify-"),
        (ResourceType.TRANSACTIONAL_ID, "ended by itself 3 times before its first batch"),
    ],
)
def test_a_broker_that_denies(private_kafka, kind, said):
    """Nothing was proved, in one sentence with the code, and exit code 3."""
    cluster = private_kafka(properties=AUTHORIZER)
    deny = AclBinding(
        *(kind, "*", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*"),
        *(AclOperation.ALL, AclPermissionType.DENY),
    )
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for done in admin.create_acls([deny]).values():
        done.result(30)
    code, found, told = verified(cluster)
    assert (code, found["event"], found["code"]) == (3, "failed", 3), told
    assert found["error"].startswith("nothing was proved: TWOPHASE_")
    assert "nothing was proved: TWOPHASE_" in told
    assert said in told
    assert "TWOPHASE_ACCESS_DENIED" in told


def watched(*arguments, **environment):
    """Watch the command while it runs."""
    return Watched([*VERIFY, "--output", "json", *arguments], **environment)


def ended(watch):
    """Wait for its end, also of all that it has started; return what it found, and stderr."""
    code, out, told = watch.end()
    assert "Traceback" not in told
    assert code == 0, (out, told)
    found = json.loads(out)
    assert set(counts(found).values()) == {0}
    assert found["verdict"]["rows_in"] == found["verdict"]["rows_out"] > 0
    assert found["left"] == []
    wait_until(lambda: not watch.left(), 10)
    return found, told


def test_executors_are_killed(kafka):
    """Executors in JVMs of their own, killed with -9 and replaced: nothing is lost."""
    before = in_cluster(kafka)
    with watched(
        *("--bootstrap-server", kafka.bootstrap_servers, "--faults", "kill-executor"),
        *("--for", "30s", "--rate", "500"),
    ) as watch:
        found, _ = ended(watch)
    kills = found["faults"]["kill-executor"]
    assert kills == found["done"]["executor killed"] >= 1
    # Two for each start of the query, and more in the place of those that were killed.
    assert len(watch.java(EXECUTOR)) > 2 * (found["restarts"] + 1)
    wait_until(lambda: in_cluster(kafka) == before)


@pytest.mark.parametrize(
    ("nodes", "faults"), [(1, ["kill-broker"]), (3, ["kill-driver", "pause", "kill-broker"])]
)
def test_brokers_are_killed(nodes, faults, tmp_path):
    """On a cluster of its own the only broker, or one of three, among other faults."""
    with watched(
        *("--embedded", str(nodes), "--faults", ",".join(faults)),
        *("--for", "60s", "--rate", "500"),
        TMPDIR=str(tmp_path),
    ) as watch:
        found, _ = ended(watch)
    assert list(found["faults"]) == faults
    assert min(found["faults"].values()) >= 1
    kills = found["faults"]["kill-broker"]
    assert kills == found["done"]["broker killed"]
    # Each was started again as another process.
    assert len(watch.java(BROKER)) == nodes + kills
    assert left_in(tmp_path) == []


def test_interrupted_while_a_broker_is_down(tmp_path):
    """Ctrl-C when nobody answers: exit code 130 soon, no process and no folder is left."""
    with watched(
        *("--embedded", "1", "--faults", "kill-broker", "--for", "5m"), TMPDIR=str(tmp_path)
    ) as watch:
        wait_until(lambda: any(not broker.alive for broker in watch.java(BROKER)), 120)
        watch.process.send_signal(signal.SIGINT)
        code, out, told = watch.end(60)
        wait_until(lambda: not watch.left(), 10)
    told_programs = {"event": "failed", "code": 130, "error": "interrupted", "error_code": None}
    assert (code, json.loads(out)) == (130, told_programs)
    assert "Traceback" not in told
    assert told.endswith("interrupted\n")
    assert left_in(tmp_path) == []


def left_in(folder):
    """What is in a folder for temporary files, but for what the JVM itself keeps there."""
    return [path.name for path in folder.iterdir() if not path.name.startswith("hsperfdata_")]
