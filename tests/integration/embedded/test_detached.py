"""The cluster that `twophase kafka` leaves running, by the real command."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import wait_until

from twophase.embedded import fetch_jars
from twophase.embedded.process import ProcessIdentity


@pytest.fixture
def twophase(tmp_path, monkeypatch):
    """Run the command line in a home of its own that has the jars already."""
    jars = {path.parent for path in fetch_jars("kafka-4.3.1")}
    (tmp_path / "jars").mkdir()
    for folder in jars:
        (tmp_path / "jars" / folder.name).symlink_to(folder)
    monkeypatch.setenv("TWOPHASE_HOME", str(tmp_path))
    yield run
    run(["kafka", "stop"])


def begin(arguments):
    """Begin a command."""
    return subprocess.Popen(
        [sys.executable, "-m", "twophase", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(arguments, expected=None):
    """Run a command to its end; return its stdout and stderr."""
    with begin(arguments) as process:
        out, err = process.communicate(timeout=200)
        assert "Traceback" not in err
        assert expected in (None, process.returncode), out + err
        return out, err


def test_one_node_from_start_to_stop(twophase, tmp_path):
    """Two starts at once make one cluster; it outlives the command, is shown, and is stopped."""
    _, err = twophase(["kafka", "topic", "orders"], expected=1)
    assert "Kafka is not running; start it first: twophase kafka start" in err
    both = [begin(["kafka", "start", "--output", "json"]) for _ in range(2)]
    answers = [json.loads(process.communicate(timeout=200)[0]) for process in both]
    assert sorted(answer["changed"] for answer in answers) == [False, True]
    assert answers[0]["cluster"] == answers[1]["cluster"]

    out, _ = twophase(["kafka", "start"], expected=0)
    assert "already running" in out
    _, err = twophase(["kafka", "start", "--nodes", "3"], expected=1)
    assert "nodes 3 was asked for and 1 is running" in err
    assert made(twophase, "orders", "clean") == ["orders", "clean"]
    assert made(twophase, "clean", "late") == ["late"]

    shown = json.loads(twophase(["kafka", "status", "--output", "json"], expected=0)[0])
    (node,) = shown["nodes"]
    assert shown == answers[0]["cluster"]
    assert Path(node["log_file"]).is_file()
    broker = ProcessIdentity.of(node["pid"])

    assert twophase(["kafka", "stop"], expected=0)[0] == "Kafka is stopped\n"
    assert not broker.alive
    assert not list((tmp_path / "kafka").rglob("data"))
    assert Path(node["log_file"]).is_file()
    twophase(["kafka", "status"], expected=3)
    assert twophase(["kafka", "stop"], expected=0)[0] == "Kafka is not running\n"


def test_three_nodes_one_dead_data_kept(twophase, tmp_path):
    """A cluster with a dead node is shown so and can be stopped; its data is kept if asked."""
    twophase(["kafka", "start", "--nodes", "3"], expected=0)
    shown = json.loads(twophase(["kafka", "status", "--output", "json"], expected=0)[0])
    assert len(shown["bootstrap_servers"].split(",")) == 3
    os.kill(shown["nodes"][1]["pid"], signal.SIGKILL)
    wait_until(lambda: "node-2" not in processes(tmp_path))
    out, _ = twophase(["kafka", "status"], expected=3)
    assert "Kafka 4.3.1 is partly running" in out
    assert "run `twophase kafka stop` first" in twophase(["kafka", "start"], expected=1)[1]
    twophase(["kafka", "stop", "--keep-data"], expected=0)
    wait_until(lambda: processes(tmp_path) == "")
    assert len(list((tmp_path / "kafka").rglob("meta.properties"))) == 3


def test_killed_in_mid_start(twophase, tmp_path):
    """A kill -9 of the command in mid start leaves no JVM, and the next start works."""
    with begin(["kafka", "start"]) as process:
        wait_until(lambda: "kafka.Kafka" in processes(tmp_path))
        process.kill()
    wait_until(lambda: processes(tmp_path) == "")
    twophase(["kafka", "start"], expected=0)


def test_ctrl_c_in_mid_start(twophase, tmp_path):
    """Ctrl-C in mid start is exit code 130, no traceback, no JVM."""
    assert twophase
    with begin(["kafka", "start"]) as process:
        wait_until(lambda: "kafka.Kafka" in processes(tmp_path))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    wait_until(lambda: processes(tmp_path) == "")


def test_port(twophase):
    """A taken port is named in one line; a free one is used."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        _, err = twophase(["kafka", "start", "--port", str(port)], expected=1)
    assert err.splitlines()[-1].startswith(f"TWOPHASE_SETUP: port {port} is taken by another")


@pytest.mark.parametrize("found", ["1.8.0_392", None])
def test_java_missing_or_too_old(twophase, tmp_path, monkeypatch, found):
    """The command says what Java it found and what to do, in one line."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    if found:
        java = tmp_path / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho 'java version \"{found}\"' >&2\n".replace("/bin/sh", SH))
        java.chmod(0o755)
    _, err = twophase(["kafka", "start"], expected=1)
    what = "is Java 8" if found else "none was found"
    assert what in err.splitlines()[-1]
    assert "install OpenJDK 17" in err.splitlines()[-1]


SH = shutil.which("sh")


def processes(folder):
    """Return the command lines of all processes that work in this folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if f"{folder}/kafka" in text and "StorageTool" not in text:
            found.append(text.replace("\0", " "))
    return "\n".join(found)


def made(twophase, *names):
    """Make topics by the command; return those that it says it has made."""
    out, _ = twophase(["kafka", "topic", *names, "--output", "json"], expected=0)
    return json.loads(out)["made"]


@pytest.mark.long
def test_a_cluster_with_users_whose_keys_are_gone(twophase):
    """Nobody can ask it any more: that is said in one sentence, and it can be stopped."""
    twophase(["kafka", "start", "--user", "etl"], expected=0)
    shown = json.loads(twophase(["kafka", "status", "--output", "json"], expected=0)[0])
    broker = ProcessIdentity.of(shown["nodes"][0]["pid"])
    shutil.rmtree(Path(shown["directory"]) / "security")
    for asked in (["status"], ["topic", "orders"], ["start"]):
        _, err = twophase(["kafka", *asked], expected=1)
        (said,) = err.splitlines()
        assert said.startswith("TWOPHASE_SETUP: Kafka runs, and the keys to ask it cannot be read")
        assert said.endswith("run `twophase kafka stop`, then start it anew")
    assert broker.alive
    assert twophase(["kafka", "stop"], expected=0)[0] == "Kafka is stopped\n"
    assert not broker.alive
    twophase(["kafka", "status"], expected=3)


@pytest.mark.long
def test_a_dead_cluster_with_users_whose_keys_are_gone(twophase):
    """It is shown as not running, and the next start needs no stop."""
    twophase(["kafka", "start", "--user", "etl"], expected=0)
    shown = json.loads(twophase(["kafka", "status", "--output", "json"], expected=0)[0])
    broker = ProcessIdentity.of(shown["nodes"][0]["pid"])
    os.kill(broker.pid, signal.SIGKILL)
    wait_until(lambda: not broker.alive)
    shutil.rmtree(Path(shown["directory"]) / "security")
    assert "is not running" in twophase(["kafka", "status"], expected=3)[0]
    _, err = twophase(["kafka", "topic", "orders"], expected=1)
    assert "Kafka is not running; start it first" in err
    twophase(["kafka", "start", "--user", "etl"], expected=0)
    assert made(twophase, "orders") == ["orders"]


@pytest.mark.long
def test_a_cluster_with_users(twophase):
    """It is shown, entered by each user's file and nobody else, and its keys go with it."""
    out, _ = twophase(["kafka", "start", "--user", "etl", "--output", "json"], expected=0)
    cluster = json.loads(out)["cluster"]
    assert (cluster["state"], sorted(cluster["users"])) == ("running", ["admin", "etl"])
    assert "already running" in twophase(["kafka", "start", "--user", "etl"], expected=0)[0]
    _, err = twophase(["kafka", "start", "--user", "eve"], expected=1)
    assert "users eve was asked for and etl is running" in err
    out, _ = twophase(["kafka", "status"], expected=0)
    assert f"--command-config of etl: {cluster['users']['etl']}" in out
    for name in ("admin", "etl"):
        path = Path(cluster["users"][name])
        assert path.stat().st_mode & 0o077 == 0
        out, _ = twophase(["sinks", "list", "--command-config", str(path)], expected=0)
        assert "no sink is known here" in out
    _, err = twophase(["sinks", "list", "--bootstrap-server", cluster["bootstrap_servers"]], 1)
    assert "speaks TLS on this port" in err
    assert made(twophase, "orders", "clean") == ["orders", "clean"]
    assert made(twophase, "clean", "late", "late") == ["late"]
    # Whoever it asks as, one without rights is told so.
    shutil.copy(cluster["users"]["etl"], cluster["users"]["admin"])
    _, err = twophase(["kafka", "topic", "denied"], expected=1)
    assert err.startswith("TWOPHASE_ACCESS_DENIED: the brokers do not let this user make the topic")
    assert len(err.splitlines()) == 1
    _, err = twophase(["kafka", "stop", "--keep-data"], expected=1)
    assert "a cluster with users keeps nothing" in err
    twophase(["kafka", "stop"], expected=0)
    left = {path.name for path in Path(cluster["directory"]).rglob("*") if path.is_file()}
    assert left <= {"log.properties", "server.log", "console.log"}
    out, _ = twophase(["kafka", "start"], expected=0)
    assert "--command-config" not in out
