"""The guardian, with a harmless process in the JVM's place."""

import signal
import subprocess
import sys

import pytest

from twophase.embedded.launch import launch
from twophase.embedded.process import ProcessIdentity
from twophase.errors import SetupError

PARENT = """
import sys, time
from pathlib import Path
from twophase.embedded.launch import launch
folder = Path(sys.argv[1])
launched = launch(sys.argv[3:], folder / "console.log", folder / "cluster" / "node-1")
if sys.argv[2] == "release":
    launched.release()
print(launched.jvm.pid, launched.guardian.pid, flush=True)
time.sleep(60)
"""
SLEEP = ["sleep", "60"]
DEAF = [sys.executable, "-c", "import signal,time;signal.signal(15,lambda *_:0);time.sleep(60)"]


@pytest.fixture
def family(tmp_path):
    """Start a parent with a guardian and its child; return the parent and both identities."""
    (tmp_path / "cluster" / "node-1").mkdir(parents=True)
    started = []

    def start(command=SLEEP, mode="keep"):
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(tmp_path), mode, *command], stdout=subprocess.PIPE
        )
        child, guardian = (ProcessIdentity.of(int(p)) for p in parent.stdout.readline().split())
        started.extend([child, guardian])
        parent.stdout.close()
        return parent, child, guardian

    yield start
    for process in started:
        process.send(signal.SIGKILL)


@pytest.mark.parametrize("command", [SLEEP, DEAF], ids=["obedient", "deaf to SIGTERM"])
def test_parent_killed(family, command, tmp_path):
    """When the parent is killed with -9, child, guardian and temporary folder go, too."""
    parent, child, guardian = family(command)
    parent.kill()
    parent.wait()
    assert child.wait(10)
    assert guardian.wait(10)
    assert not (tmp_path / "cluster").exists()


def test_parent_killed_while_child_is_paused(family):
    """A child held by SIGSTOP goes as well."""
    parent, child, _ = family()
    child.send(signal.SIGSTOP)
    parent.kill()
    parent.wait()
    assert child.wait(10)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the Linux kernel for it")
def test_guardian_killed(family):
    """When the guardian itself is killed with -9, the kernel ends the child."""
    parent, child, guardian = family()
    guardian.send(signal.SIGKILL)
    assert child.wait(10)
    parent.kill()
    parent.wait()


def test_guardian_asked_to_end(family):
    """SIGTERM to the guardian ends the child."""
    parent, child, guardian = family()
    guardian.send(signal.SIGTERM)
    assert child.wait(10)
    parent.kill()
    parent.wait()


def test_released(family):
    """After its release the child outlives the parent."""
    parent, child, guardian = family(mode="release")
    parent.kill()
    parent.wait()
    assert not child.wait(1)
    child.send(signal.SIGTERM)
    assert guardian.wait(10)


def test_command_that_cannot_be_started(tmp_path):
    """A command that does not exist is a SetupError, and no process is left."""
    with pytest.raises(SetupError, match="could not be started"):
        launch(["/no/such/java"], tmp_path / "console.log", None)
