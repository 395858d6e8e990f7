"""`twophase verify` over TLS and SASL, with few rights: it proves, and no secret is found."""

import json
import signal
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.canaries import canary, found_in
from support.planting import escaped
from support.rights import names, rights_of
from support.secured import Right, SuperUser, prefixed
from support.waiting import wait_until
from support.watched import Watched

from twophase.embedded import EmbeddedKafka

from .test_verify import counts

PAGE = Path(__file__).parents[2] / "docs" / "verify.md"
VERIFY = [sys.executable, "-m", "twophase", "verify", "--output", "json"]

PIPELINE = """\
kafka: {kafka}
source: {{kafka: {{topic: {source}}}}}
steps: [{{view: rows, sql: "SELECT key, value FROM source"}}]
sinks: [{{kafka: {{sink_id: own, topic: {target}}}}}]
checkpoint: checkpoint
"""

pytestmark = pytest.mark.long


class Door:
    """A cluster that asks who is there, its user `etl`, and all of etl's secrets."""

    def __init__(self, cluster, password):
        self.cluster, self.super_user = cluster, SuperUser(cluster)
        self.rights = rights_of("verify", PAGE)
        made = cluster._authority.issue("etl")
        # A line from the middle of the key stands for it.
        self.secrets = {
            "password": password,
            "private key": made.key.splitlines()[2],
            "login module": "LoginModule required username",
        }
        by_certificate = cluster.client_options("etl", "SSL")
        del by_certificate["ssl.keystore.location"]
        self.key = by_certificate | {
            "ssl.keystore.key": made.key,
            "ssl.keystore.certificate.chain": made.chain,
        }

    def options(self, protocol, mechanism):
        """Options with all secrets in them, the key inline."""
        return self.key | self.cluster.client_options("etl", protocol, mechanism)

    def left(self):
        """Which topics of verifications are there."""
        topics = self.super_user.admin.list_topics(timeout=10).topics
        return sorted(name for name in topics if name.startswith("twophase-verify-"))


@pytest.fixture(scope="module")
def door():
    password = canary("password")
    with EmbeddedKafka(users={"etl": password}) as cluster:
        yield Door(cluster, password)


class Place:
    """Folders for one run: what is searched, and beside it what holds secrets rightly."""

    def __init__(self, folder):
        self.searched, self.tmp = folder / "searched", folder / "tmp"
        self.folder = folder
        for made in (self.searched, self.tmp, folder / "conf"):
            made.mkdir()
        # No secret: planted where it will be shown, so that the search is seen to find it.
        self.planted = canary("planted")
        self.report = self.searched / f"report-{self.planted}.html"

    def properties(self, options):
        """Write a command's configuration."""
        path = self.folder / "client.properties"
        path.write_text("".join(f"{key}={escaped(value)}\n" for key, value in options.items()))
        return str(path)

    def environment(self):
        """Let Spark write an event log of all that the verification does."""
        events = self.tmp / "events"
        events.mkdir()
        (self.folder / "conf" / "spark-defaults.conf").write_text(
            "spark.eventLog.enabled true\n"
            "spark.eventLog.compress false\n"
            f"spark.eventLog.dir {events.as_uri()}\n"
            f"spark.planted {self.planted}\n"
        )
        return {"TMPDIR": str(self.tmp), "SPARK_CONF_DIR": str(self.folder / "conf")}

    def verified(self, *arguments, **more):
        """Run the command and keep all that it shows; return exit code and what it found."""
        command = [*VERIFY, "--report", str(self.report), *arguments]
        with Watched(command, kept=self.searched, **self.environment(), **more) as watched:
            code, out, told = watched.end()
            wait_until(lambda: not watched.left())
        (self.searched / "stdout").write_text(out)
        (self.searched / "stderr").write_text(told)
        commands = {each for several in watched.commands.values() for each in several}
        (self.searched / "commands").write_bytes(b"\n".join(commands))
        assert "Traceback" not in told
        return code, json.loads(out or "null"), told


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_it_proves_with_the_rights_of_its_page(door, place, mechanism):
    """Exit code 0 with exactly these rights; topics and group are gone; no secret is found."""
    door.super_user.grant("etl", *door.rights)
    options = door.options("SASL_SSL", mechanism)
    code, found, told = place.verified(
        *("--command-config", place.properties(options)),
        *("--for", "20s", "--rate", "300", "--faults", "kill-driver"),
    )
    assert code == 0, (found, told)
    assert set(counts(found).values()) == {0}
    assert found["verdict"]["rows_out"] == 6_000
    assert found["faults"]["kill-driver"] >= 1
    assert found["left"] == []
    assert door.left() == []
    assert found_in(place.searched, door.secrets) == []
    # The search would have found them: what is no secret is found in each of these places.
    seen = {
        "planted": place.planted,
        "prefix": found["prefix"],
        "servers": f"on {options['bootstrap.servers']}",
    }
    hits = found_in(place.searched, seen)
    for name, where in (
        ("planted", "commands"),
        ("planted", "stdout"),
        ("planted", "/eventlog_v2_"),
        ("prefix", "stderr"),
        ("prefix", "/checkpoint/offsets/"),
        ("prefix", "/history.jsonl"),
        ("servers", "report-"),
    ):
        assert [hit for hit in hits if hit[0] == name and where in hit[1]], (name, where)
    # Nothing of the connection is left either where everybody may look.
    assert [path.name for path in place.tmp.iterdir() if path.name.startswith("twophase-")] == []


def test_a_pipeline_of_ones_own(door, place):
    """The same from a file, whose secrets come by reference; two rights more, and none of harm."""
    source, target = door.super_user.make_topic(2), door.super_user.make_topic(2)
    more = rights_of("verify a pipeline", PAGE, source=source, target=target)
    door.super_user.grant("etl", *door.rights, *more)
    producer = Producer(door.super_user.settings)
    for number in range(3_000):
        producer.produce(source, key=f"{number}".encode(), value=b"{}", partition=number % 2)
    assert producer.flush(30) == 0
    options = door.options("SASL_SSL", "SCRAM-SHA-512")
    for name in ("ssl.keystore.key", "ssl.keystore.certificate.chain"):
        kept = place.folder / name
        kept.write_text(options[name])
        options[name] = f"${{file:{kept}}}"
    options["sasl.jaas.config"] = options["sasl.jaas.config"].replace(
        door.secrets["password"], "${env:ETL_PASSWORD}"
    )
    path = place.folder / "pipeline.yaml"
    path.write_text(PIPELINE.format(kafka=json.dumps(prefixed(options)), **locals()))
    code, found, told = place.verified(
        *("--pipeline", str(path), "--id-column", "key", "--faults", "kill-driver", "--for", "10s"),
        ETL_PASSWORD=door.secrets["password"],
    )
    assert code == 0, (found, told)
    assert found["verdict"]["rows_out"] == 3_000
    assert found["faults"]["kill-driver"] >= 1
    assert door.left() == found["left"] == []
    assert door.super_user.values(target) == []
    assert found_in(place.searched, door.secrets) == []
    seen = {"planted": place.planted, "prefix": found["prefix"]}
    where = {(name, path.partition("/")[0]) for name, path in found_in(place.searched, seen)}
    assert {("planted", "events"), ("prefix", "commands"), ("prefix", "stdout")} <= where


def test_a_pipeline_that_is_denied(door, place):
    """Without any right: one sentence and exit code 3, after one warning of the way it went."""
    door.super_user.grant("etl", *door.rights)
    door.super_user.revoke("etl", *door.rights)
    source, target = door.super_user.make_topic(), door.super_user.make_topic()
    options = door.cluster.client_options("etl", "SASL_PLAINTEXT", "PLAIN")
    options["sasl.jaas.config"] = options["sasl.jaas.config"].replace(
        door.secrets["password"], "${env:ETL_PASSWORD}"
    )
    path = place.folder / "pipeline.yaml"
    path.write_text(PIPELINE.format(kafka=json.dumps(prefixed(options)), **locals()))
    code, found, told = place.verified(
        *("--pipeline", str(path), "--id-column", "key"), ETL_PASSWORD=door.secrets["password"]
    )
    assert (code, found["code"], found["error_code"]) == (3, 3, "TWOPHASE_ACCESS_DENIED"), told
    # What it would have deleted it could not ask for either.
    begins = ("kafka.sasl.mechanism=PLAIN without TLS: ", "prefix ", "left behind: ")
    *before, said = told.splitlines()
    assert all(f" {name}" in before[2] for name in found["left"])
    assert [name.rpartition("-")[2] for name in found["left"]] == ["in", "out", "reference"]
    assert [line.startswith(begin) for line, begin in zip(before, begins, strict=True)] == [
        True
    ] * 3
    assert said.startswith("nothing was proved: TWOPHASE_ACCESS_DENIED: "), told
    assert names(Right("DESCRIBE", "topic", source), said), told
    assert door.left() == []
    assert found_in(place.searched, door.secrets) == []


@pytest.mark.parametrize("at", [0, 1, 2, 4, 6])
def test_a_right_is_missing(door, place, at):
    """Nothing is proved, the right is named, what it made is gone, and no secret is found."""
    right = door.rights[at]
    door.super_user.grant("etl", *door.rights)
    door.super_user.revoke("etl", right)
    options = door.options("SASL_SSL", "PLAIN")
    code, found, told = place.verified(
        *("--command-config", place.properties(options)),
        *("--for", "10s", "--rate", "100", "--faults", "kill-driver"),
    )
    assert (code, found["event"], found["code"]) == (3, "failed", 3), told
    said = told.partition("nothing was proved: ")[2]
    assert "TWOPHASE_ACCESS_DENIED" in said
    # Without WRITE on any topic a broker gives no producer id, and names no topic.
    assert names(right, said) or "or WRITE on the topic" in said, told
    assert door.left() == []
    assert found_in(place.searched, door.secrets) == []
    if at > 1:
        # Spark has begun, and its log is kept.
        assert "the driver's log is " in told
        prefix = told.split()[1].rstrip(":")
        logs = [file for _, file in found_in(place.searched, {"": prefix}) if "driver.log" in file]
        assert logs


@pytest.mark.parametrize("how", ["denied", "interrupted"])
def test_what_is_left_of_a_run_that_proved_nothing(door, place, how):
    """Refused midway, or ended by hand, with no right to delete: people and programs are told."""
    deletes = [right for right in door.rights if right.operation == "DELETE"]
    write_id = next(right for right in door.rights if right.kind == "transactional id")
    door.super_user.grant("etl", *door.rights)
    door.super_user.revoke("etl", *deletes, *([write_id] if how == "denied" else []))
    command = [*VERIFY, "--command-config", place.properties(door.options("SASL_SSL", "PLAIN"))]
    command += ["--for", "60s", "--rate", "100", "--faults", "kill-driver"]
    with Watched(command, **place.environment()) as watched:
        if how == "interrupted":
            wait_until(lambda: len(door.left()) == 2, 60)
            watched.process.send_signal(signal.SIGINT)
        code, out, told = watched.end()
        wait_until(lambda: not watched.left())
    found, own = json.loads(out), door.left()
    assert (len(own), found["left"][:2]) == (2, own)
    assert (code, found["code"]) == ((3, 3) if how == "denied" else (130, 130)), told
    assert f"left behind: {', '.join(found['left'])}; delete it by hand: " in told
    assert "Traceback" not in told
    for done in door.super_user.admin.delete_topics(own).values():
        done.result(30)


def test_what_may_not_be_deleted_is_named(door, place):
    """It proves all the same, and says what it leaves."""
    deletes = [right for right in door.rights if right.operation == "DELETE"]
    door.super_user.grant("etl", *door.rights)
    door.super_user.revoke("etl", *deletes)
    options = door.options("SASL_SSL", "PLAIN")
    code, found, told = place.verified(
        *("--command-config", place.properties(options)),
        *("--for", "10s", "--rate", "100", "--faults", "kill-driver"),
    )
    assert code == 0, (found, told)
    own = [f"{found['prefix']}-in", f"{found['prefix']}-out", f"twophase.{found['prefix']}-out"]
    assert found["left"] == own
    assert found["deleted"] == []
    assert f"left behind: {', '.join(own)}; delete it by hand: " in told
    assert names(deletes[0], told)
    assert door.left() == own[:2]
    for done in door.super_user.admin.delete_topics(own[:2]).values():
        done.result(30)
