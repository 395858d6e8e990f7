"""`twophase run` as a user runs it: the command in a process of its own, killed and stopped."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen
from uuid import uuid4

import psycopg
import pytest
from support.canaries import canary, found_in
from support.pipelines import (
    COMMAND,
    QUICK,
    begin,
    fill,
    finish,
    kafka_to_kafka,
    slowed,
    stop,
    until,
    with_dead_letters,
)
from support.readers import read, values
from support.waiting import wait_until

from twophase.embedded.ports import free_ports

TOLD = """\
import os


def made(token):
    assert token == os.environ["TOKEN"]

    def sink(frame, batch):
        frame.collect()

    return sink
"""

pytestmark = pytest.mark.long


def is_batch(told):
    return told["event"] == "batch"


def open_transactions(kafka):
    command = [sys.executable, "-m", "twophase", "transactions", "list", "--output", "json"]
    where = ["--bootstrap-server", kafka.bootstrap_servers]
    done = subprocess.run([*command, *where], capture_output=True, check=True, text=True)
    return json.loads(done.stdout)["transactions"]


def test_kill_minus_nine_and_start_again(kafka, make_topic, tmp_path):
    """Killed again and again wherever it is, each row is in the topic once in the end."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka, 2), make_topic(kafka, 2)
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=200)
    fill(servers, source, range(2_000))
    for after_s in (0.0, 0.15, 0.3):
        process = begin(path)
        until(process, is_batch)
        time.sleep(after_s)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    code, told, err = finish(begin(path, "--available-now"))
    assert (code, told[-1]["event"], told[-1]["why"]) == (0, "stopped", "the source is used up"), (
        err
    )
    assert sorted(map(int, values(servers, target))) == [2 * number for number in range(2_000)]


def test_sigterm_in_the_middle_of_a_batch(kafka, make_topic, tmp_path):
    """The batch is finished, none begins after it, and the end says where it is."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka)
    (port,) = free_ports(1)
    more = f"metrics: {{port: {port}}}\n"
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=10, more=more)
    slowed(path, 3)
    fill(servers, source, range(100))
    process = begin(path)
    until(process, is_batch)
    time.sleep(1.5)  # The next one takes three seconds.
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        assert b"twophase_rows_total{" in answer.read()
    stop(process)
    code, told, err = finish(process)
    assert code == 0, err
    asked, ended = told[0], told[-1]
    assert (asked["event"], asked["batch"]) == ("stopping", 1)
    assert (ended["event"], ended["why"], ended["batch"]) == ("stopped", "stopped as asked", 1)
    assert ended["offsets"] == {f"KafkaV2[Subscribe[{source}]]": {source: {"0": 20}}}
    assert (tmp_path / "checkpoint" / "commits" / "1").exists()
    assert not (tmp_path / "checkpoint" / "commits" / "2").exists()
    assert sorted(map(int, values(servers, target))) == [2 * number for number in range(20)]
    assert open_transactions(kafka) == []
    slowed(path, 0)
    assert finish(begin(path, "--available-now"))[0] == 0
    assert sorted(map(int, values(servers, target))) == [2 * number for number in range(100)]


def test_a_second_signal_ends_at_once(kafka, make_topic, tmp_path):
    """Exit code 130, no process stays, and the next start does the batch again, once."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka)
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=10)
    slowed(path, 3)
    fill(servers, source, range(30))
    process = begin(path)
    until(process, is_batch)
    time.sleep(1.0)
    # As a terminal does for Ctrl-C: to all that is in the foreground, Spark's JVM too.
    os.killpg(process.pid, signal.SIGINT)
    until(process, lambda told: told["event"] == "stopping")
    began_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert (code, time.monotonic() - began_s < 2.5) == (130, True)
    assert "ended at once: batch 0 was the last finished" in err
    wait_until(lambda: not of_session(process.pid), 20)
    slowed(path, 0)
    assert finish(begin(path, "--available-now"))[0] == 0
    assert sorted(map(int, values(servers, target))) == [2 * number for number in range(30)]


def test_two_runs_of_one_pipeline(kafka, make_topic, tmp_path):
    """The second one is refused at once, with a code that says: let the first one."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka)
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=20)
    fill(servers, source, range(100))
    first = begin(path)
    until(first, is_batch)
    code, told, _ = finish(begin(path))
    assert (code, told[-1]["event"], told[-1]["code"]) == (4, "failed", 4)
    assert f"at work on this machine (process {first.pid})" in told[-1]["error"]
    wait_until(lambda: len(values(servers, target)) == 100, 60)
    stop(first)
    assert finish(first)[0] == 0
    assert sorted(map(int, values(servers, target))) == [2 * number for number in range(100)]


def test_two_runs_on_two_machines(kafka, make_topic, tmp_path, monkeypatch):
    """Where nothing keeps them apart, they get in each other's way, and double nothing."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka)
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=20)
    fill(servers, source, range(100))
    both = []
    for machine in ("a", "b"):
        (tmp_path / machine).mkdir()
        monkeypatch.setenv("TMPDIR", str(tmp_path / machine))
        both.append(begin(path))
    for each in both:
        until(each, lambda told: told["event"] == "started")
    for first in range(100, 800, 20):
        fill(servers, source, range(first, first + 20))
        time.sleep(0.5)
        if any(each.poll() is not None for each in both):
            break
    for each in both:
        if each.poll() is None:
            stop(each)
    codes = [finish(each)[0] for each in both]
    assert set(codes) <= {0, 1, 3, 4}
    assert max(codes) > 0
    found = [int(value) for value in values(servers, target)]
    assert len(found) == len(set(found)) >= 20


def of_session(pid):
    """Every process of a session, which PySpark's workers are in too."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == pid and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


def test_dead_letters_are_told(kafka, make_topic, tmp_path):
    """The good rows and the bad one are where they belong, and a person is told how many."""
    servers, source = kafka.bootstrap_servers, make_topic(kafka)
    target, dead = make_topic(kafka), make_topic(kafka)
    fill(servers, source, range(20))
    path = kafka_to_kafka(tmp_path, servers, source, target)
    with_dead_letters(path, target, dead)
    done = subprocess.run(
        [*COMMAND, str(path), "--available-now"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r": batch 0, 19 rows, 1 dead letters", done.stdout), done.stdout
    assert sorted(map(int, values(servers, target))) == [2 * n for n in range(20) if n != 13]
    (letter,) = read(servers, dead)
    assert (letter.value, dict(letter.headers)["twophase.reject.reason"]) == (
        *(b"26", b"partition-out-of-range"),
    )


@pytest.fixture
def role(postgres_url):
    """A user with a password and a database; its address, the password left to the file."""
    name, password = f"run_{uuid4().hex[:8]}", canary("database")
    server = urlsplit(postgres_url)
    place = f"{server.hostname}:{server.port or 5432}/{name}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        connection.execute(f"CREATE DATABASE {name} OWNER {name}")
        with psycopg.connect(f"postgresql://{name}:{password}@{place}") as own:
            own.execute("CREATE TABLE numbers (number bigint)")
        yield f"postgresql://{name}:${{env:DATABASE_PASSWORD}}@{place}", password
        connection.execute(f"DROP DATABASE {name}")
        connection.execute(f"DROP ROLE {name}")


def test_secrets_are_found_nowhere(kafka, make_topic, role, tmp_path, monkeypatch):
    """Not in what is printed, Spark's log, its event log, the checkpoint or a command line."""
    url, password = role
    secrets = {"sasl": canary("sasl"), "database": password, "argument": canary("argument")}
    shown_name = canary("name")
    for variable, secret in (
        ("CANARY", secrets["sasl"]),
        ("DATABASE_PASSWORD", password),
        ("TOKEN", secrets["argument"]),
    ):
        monkeypatch.setenv(variable, secret)
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka)
    fill(servers, source, range(20))
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=10)
    (tmp_path / "events").mkdir()
    (tmp_path / "told_sink.py").write_text(TOLD)
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    login = f'  kafka.sasl.jaas.config: \'{jaas} username="u" password="${{env:CANARY}}";\'\n'
    sinks = f"""\
  - postgres:
      sink_id: table-{source}
      url: {url}
      table: numbers
      sql: SELECT CAST(value AS BIGINT) AS number FROM late
  - python:
      sink_id: own-{source}
      name: told_sink:made
      arguments: {{token: "${{env:TOKEN}}"}}
checkpoint:"""
    text = path.read_text().replace("source:\n", f"{login}source:\n", 1)
    conf = f"""    spark.eventLog.enabled: true
    spark.eventLog.dir: file://{tmp_path}/events
    spark.eventLog.compress: false
    spark.hadoop.fs.s3a.secret.key: ${{env:CANARY}}
"""
    path.write_text(f"name: {shown_name}\n{text.replace('checkpoint:', sinks, 1)}{conf}")
    slowed(path, 3)
    log = tmp_path / "spark.log"
    process = begin(path, "--available-now", "--spark-log", str(log))
    told = until(process, is_batch)
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in of_session(process.pid)]
    assert len(lines) > 2
    code, more, err = finish(process)
    assert code == 0, err
    done = subprocess.run(
        [*COMMAND, str(path), "--dry-run"], capture_output=True, text=True, check=True
    )
    shown = json.dumps(told + more) + err + done.stdout + done.stderr + repr(lines)
    (tmp_path / "shown").write_text(shown)
    assert "***" in done.stdout
    assert found_in(tmp_path, secrets) == []
    # Where Spark shows what is no secret, and so would show one.
    where = {place.partition("/")[0] for _, place in found_in(tmp_path, {"name": shown_name})}
    assert where >= {"p.yaml", "events", "shown"}
    assert len(values(servers, target)) == 20
    with psycopg.connect(url.replace("${env:DATABASE_PASSWORD}", password)) as connection:
        assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (20,)


def test_a_signal_before_the_stream_begins(tmp_path):
    """Nothing is started for the sake of being stopped; the code says that nothing was done."""
    (tmp_path / "signalled.py").write_text(
        "import os, signal\ndef step(frame):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n    return frame\n"
        "def sink(frame, batch):\n    pass\n"
        "def make():\n    return sink\n"
    )
    path = tmp_path / "p.yaml"
    path.write_text(
        "source: {rate: {rows_per_second: 10}}\nsteps: [python: 'signalled:step']\n"
        "sinks: [python: {sink_id: own, name: 'signalled:make'}]\n"
        f"checkpoint: state\ntrigger: available-now\n{QUICK}"
    )
    code, told, err = finish(begin(path))
    assert (code, [each["event"] for each in told]) == (130, ["failed"]), err
    assert not (tmp_path / "state").exists()


def test_the_reader_goes(kafka, make_topic, tmp_path):
    """As by `| head -1`: the batch under way is finished, and the code is that of a failure."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka)
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=10)
    fill(servers, source, range(1_000))
    process = begin(path)
    until(process, lambda told: told["event"] == "started")
    process.stdout.close()
    with process.stderr as stream:
        err = stream.read()
    assert (process.wait(120), "Traceback" in err) == (1, False), err
    batch = len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) - 1
    assert f"so it was stopped after batch {batch}" in err
    found = sorted(map(int, values(servers, target)))
    assert found == [2 * number for number in range(10 * (batch + 1))]
    assert open_transactions(kafka) == []
