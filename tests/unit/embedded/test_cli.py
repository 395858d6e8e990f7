"""The command line around the embedded broker, without a broker."""

import json
import os
import signal
import subprocess
import sys

import click
import pytest
from support.waiting import wait_until

from twophase.cli import kafka as commands
from twophase.cli.main import run, twophase
from twophase.embedded import detached
from twophase.embedded.detached import Change, ClusterStatus, NodeStatus
from twophase.embedded.process import ProcessIdentity
from twophase.errors import SetupError


@pytest.fixture(autouse=True)
def empty_home(tmp_path, monkeypatch):
    """Give each test a cache folder of its own."""
    monkeypatch.setenv("TWOPHASE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def state(empty_home):
    """Write a state file that names these processes as nodes."""

    def write(*processes, version="4.3.1"):
        nodes = [
            {"node_id": i, "pid": p.pid, "started": p.started, "port": 1, "log_file": f"/log/{i}"}
            for i, p in enumerate(processes, start=1)
        ]
        content = {"version": version, "directory": str(empty_home / "d"), "nodes": nodes}
        (empty_home / "kafka").mkdir()
        (empty_home / "kafka" / "state.json").write_text(json.dumps(content))

    return write


def test_not_running(capsys):
    """Status says so with exit code 3, stop says so with 0."""
    assert run(["kafka", "status"]) == 3
    assert run(["kafka", "stop"]) == 0
    assert capsys.readouterr().out == "Kafka is not running\n" * 2


def test_not_running_as_json(capsys):
    """JSON is the whole of stdout."""
    assert run(["kafka", "status", "--output", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["state"] == "not running"


def test_text_shows_every_node(monkeypatch, capsys):
    """Text names version, addresses, states and logs; logs are never cut short."""
    log = "/a/very/long/folder" * 20
    nodes = (NodeStatus(1, "running", 7, "127.0.0.1:1", log), NodeStatus(2, "dead", 8, "x:2", log))
    now = ClusterStatus("partly running", "4.3.1", "127.0.0.1:1", "/d", nodes)
    monkeypatch.setattr(detached, "status", lambda: now)
    assert run(["kafka", "status"]) == 3
    out = capsys.readouterr().out
    assert "Kafka 4.3.1 is partly running at 127.0.0.1:1\n" in out
    assert f"log of node 2: {log}\n" in out


def test_start_says_what_it_did(monkeypatch, capsys):
    """A start that had nothing to do says that, and options reach it as types."""
    asked = []
    now = ClusterStatus("running", "4.3.1", "127.0.0.1:9")

    def start(*arguments):
        asked.append(arguments)
        return Change(changed=len(asked) == 1, cluster=now)

    monkeypatch.setattr(detached, "start", start)
    assert run(["kafka", "start", "--nodes", "3", "--version", "3.9.2", "--port", "9"]) == 0
    assert run(["kafka", "start"]) == 0
    assert asked == [(3, "3.9.2", 9, ()), (None, None, None, ())]
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Kafka 4.3.1 is ready at 127.0.0.1:9"
    assert second == "Kafka 4.3.1 is already running at 127.0.0.1:9"


@pytest.mark.parametrize("arguments", [["kafka", "start", "--nodes", "2"], ["nonsense"]])
def test_wrong_usage(arguments, capsys):
    """A usage error is exit code 2 and says how to get help."""
    assert run(arguments) == 2
    assert "--help" in capsys.readouterr().err


def test_an_error_is_one_line(monkeypatch, capsys):
    """An error of this package is one sentence on stderr, exit code 1, no traceback."""

    def fail():
        raise SetupError("no luck; try again")

    monkeypatch.setattr(detached, "status", fail)
    assert run(["kafka", "status"]) == 1
    assert capsys.readouterr().err == "TWOPHASE_SETUP: no luck; try again\n"


def test_ctrl_c(monkeypatch, capsys):
    """Ctrl-C is exit code 130 without a traceback."""
    monkeypatch.setattr(detached, "status", lambda: os.kill(os.getpid(), signal.SIGINT))
    assert run(["kafka", "status"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted"


def test_damaged_state_file(empty_home, capsys):
    """A state file that cannot be read is named, with what to do."""
    (empty_home / "kafka").mkdir()
    (empty_home / "kafka" / "state.json").write_text("{")
    assert run(["kafka", "status"]) == 1
    assert "state.json is not a state file" in capsys.readouterr().err


def test_a_pid_used_again_is_not_the_broker(state, capsys):
    """After a reboot the state file's pids may be others' processes: they are left alone."""
    state(ProcessIdentity(os.getpid(), "another time"))
    assert detached.status().state == "not running"
    assert detached.status().nodes[0].state == "dead"
    assert run(["kafka", "stop"]) == 0
    assert capsys.readouterr().out == "Kafka is not running\n"
    assert run(["kafka", "status"]) == 3


def test_half_dead(state, capsys):
    """A cluster of which a part is gone is shown so, not started over, and can be stopped."""
    with subprocess.Popen(["sleep", "60"]) as alive:
        identity = ProcessIdentity.of(alive.pid)
        state(identity, ProcessIdentity(os.getpid(), "another time"))
        now = detached.status()
        assert now.state == "partly running"
        assert [node.state for node in now.nodes] == ["not answering", "dead"]
        assert run(["kafka", "start"]) == 1
        assert "node 2 is dead; run `twophase kafka stop` first" in capsys.readouterr().err
        identity.send(signal.SIGSTOP)
        wait_until(lambda: identity.paused)
        assert detached.status().nodes[0].state == "paused"
        assert run(["kafka", "stop"]) == 0
        assert capsys.readouterr().out == "Kafka is stopped\n"
        assert not identity.alive


def test_stop_is_bounded(state):
    """A broker that does not obey is killed."""
    deaf = "import signal,time;signal.signal(15,signal.SIG_IGN);print(flush=True);time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        state(ProcessIdentity.of(process.pid))
        assert detached.stop(timeout_s=0.3).changed
        assert process.wait(10) == -signal.SIGKILL


def test_another_cluster_is_refused_by_name(state, capsys):
    """Asking for other nodes, version or port than those that run says what differs."""
    with subprocess.Popen(["sleep", "60"]) as alive:
        state(ProcessIdentity.of(alive.pid))
        assert run(["kafka", "start", "--nodes", "3", "--version", "3.9.2"]) == 1
        alive.kill()
    said = capsys.readouterr().err
    assert "nodes 3 was asked for and 1 is running" in said
    assert "version 3.9.2 was asked for and 4.3.1 is running" in said


def test_every_command_teaches():
    """Each command has a help text with an example."""
    for command in (twophase, commands.kafka, *commands.kafka.commands.values()):
        with click.Context(command) as context:
            assert "Example" in command.get_help(context)


def test_python_m():
    """`python -m twophase` is the same command line."""
    answer = subprocess.run(
        [sys.executable, "-m", "twophase", "--version"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.startswith("twophase, version ")
