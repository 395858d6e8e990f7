"""`twophase run` where something is wrong: the sentence, the exit code and the error's code."""

import subprocess

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from support.pipelines import COMMAND, QUICK, begin, fill, finish, kafka_to_kafka

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # A resource is everybody's until it has an ACL.
    "allow.everyone.if.no.acl.found": "true",
}
FAILING = """\
from twophase.errors import StoreUnavailable


class Failing:
    calls = 0

    def __init__(self, fails):
        self.fails = fails

    def __call__(self, frame, batch):
        Failing.calls += 1
        if Failing.calls <= self.fails:
            raise StoreUnavailable("not now")
"""
UNAVAILABLE = "TWOPHASE_STORE_UNAVAILABLE"

pytestmark = pytest.mark.long


def test_no_broker(tmp_path):
    """One sentence and exit code 1: a scheduler may try again."""
    path = kafka_to_kafka(tmp_path, "127.0.0.1:1", "in", "out", more="")
    more = "  kafka.bootstrap.servers: 127.0.0.1:1\n"
    quick = more + "source:\n  kafka:\n    options: {kafka.request.timeout.ms: 1000}\n"
    path.write_text(path.read_text().replace(f"{more}source:\n  kafka:\n", quick))
    code, told, err = finish(begin(path))
    assert (code, told[-1]["event"], told[-1]["code"]) == (1, "failed", 1), err
    assert told[-1]["error_code"] == UNAVAILABLE
    assert "no answer from kafka.bootstrap.servers=127.0.0.1:1" in told[-1]["error"]
    assert not (tmp_path / "checkpoint").exists()


def test_no_topic(kafka, make_topic, tmp_path):
    """One sentence that names it; the file is wrong, or the topic is to be made."""
    path = kafka_to_kafka(tmp_path, kafka.bootstrap_servers, make_topic(kafka), "not-there")
    code, told, _ = finish(begin(path))
    assert (code, told[-1]["error_code"]) == (2, "TWOPHASE_CONFIGURATION")
    assert "not-there" in told[-1]["error"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [(ResourceType.TOPIC, "topic"), (ResourceType.TRANSACTIONAL_ID, "twophase.run-")],
)
def test_a_broker_that_denies(private_kafka, make_topic, tmp_path, kind, said):
    """One sentence that names the right, and exit code 3: starting again does not help."""
    cluster = private_kafka(properties=AUTHORIZER)
    servers = cluster.bootstrap_servers
    source, target = make_topic(cluster), make_topic(cluster)
    fill(servers, source, range(10))
    deny = AclBinding(
        *(kind, "*", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*"),
        *(AclOperation.ALL, AclPermissionType.DENY),
    )
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.create_acls([deny]).values():
        done.result(30)
    code, told, err = finish(begin(kafka_to_kafka(tmp_path, servers, source, target)))
    assert (code, told[-1]["code"]) == (3, 3), err
    assert told[-1]["error_code"] == "TWOPHASE_ACCESS_DENIED"
    assert told[-1]["error"].startswith("TWOPHASE_ACCESS_DENIED: ")
    assert said in told[-1]["error"]


def test_mistakes_as_text_and_as_json(tmp_path):
    """Exit code 2, before Spark is started; text for people, JSON for programs."""
    path = kafka_to_kafka(tmp_path, "nowhere", "in", "out")
    code, told, _ = finish(begin(path))
    assert (code, told[0]["event"], told[0]["mistakes"][0]["line"]) == (2, "failed", 2)
    assert told[0]["error_code"] == "TWOPHASE_CONFIGURATION"
    done = subprocess.run([*COMMAND, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{path}:2:3: kafka.bootstrap.servers='nowhere'")


def test_restarts(tmp_path):
    """A query that fails is started again so often; the status says so; then the run fails."""
    (tmp_path / "failing_sink.py").write_text(FAILING)
    path = tmp_path / "p.yaml"

    def write(fails, restarts):
        sink = f"{{sink_id: own, name: 'failing_sink:Failing', arguments: {{fails: {fails}}}}}"
        path.write_text(
            f"source: {{rate: {{rows_per_second: 10}}}}\nsinks: [python: {sink}]\n"
            f"checkpoint: state-{fails}\nrestarts: {restarts}\ntrigger: available-now\n{QUICK}"
        )

    write(2, 2)
    code, told, err = finish(begin(path))
    assert code == 0, err
    assert [each["restart"] for each in told if each["event"] == "restarting"] == [1, 2]
    assert {each["error_code"] for each in told if each["event"] == "restarting"} == {UNAVAILABLE}
    assert [each["restarts"] for each in told if each["event"] == "started"] == [0, 1, 2]
    assert told[-1]["restarts"] == 2
    write(9, 1)
    code, told, err = finish(begin(path))
    assert (code, told[-1]["code"], told[-1]["error_code"]) == (1, 1, UNAVAILABLE)
    assert told[-1]["error"].startswith(f"{UNAVAILABLE}: not now")
    assert "Spark's own log is" in err
