"""Naming processes."""

import os
import queue
import signal
import subprocess
import threading
import time

import pytest

from twophase.embedded.process import ProcessIdentity


@pytest.fixture
def sleeper():
    """Start a process that does nothing."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_lives_until_it_is_ended(sleeper):
    """A live process is alive, a paused one too, an ended one is not, even before it is reaped."""
    identity = ProcessIdentity.of(sleeper.pid)
    assert identity.alive
    assert identity.send(signal.SIGSTOP)
    _until(lambda: identity.paused)
    assert identity.alive
    assert not identity.wait(0.1)
    assert identity.send(signal.SIGKILL)
    assert identity.wait(10)
    assert not identity.send(signal.SIGKILL)


def test_another_process_of_the_same_pid_is_left_alone(sleeper):
    """A pid that was used again is neither taken for the old process nor signalled."""
    former = ProcessIdentity(sleeper.pid, "another time")
    assert not former.alive
    assert not former.send(signal.SIGKILL)
    assert ProcessIdentity.of(sleeper.pid).alive


def test_nobody(sleeper):
    """A pid that nobody has is nobody."""
    sleeper.kill()
    sleeper.wait()
    assert ProcessIdentity.of(sleeper.pid) is None


def test_without_proc_the_same_is_read_from_ps(sleeper, monkeypatch):
    """Where there is no /proc, ps tells start and state."""
    monkeypatch.setattr("twophase.embedded.process.Path.exists", lambda _: False)
    identity = ProcessIdentity.of(sleeper.pid)
    assert identity.alive
    monkeypatch.delattr(os, "pidfd_open")
    assert identity.send(signal.SIGKILL)
    assert identity.wait(10)
    assert not identity.send(signal.SIGKILL)


def _until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_pid_that_has_become_the_number_of_a_thread():
    """The process is gone: its number says nothing, and nobody is signalled."""
    asked = threading.Event()
    numbers = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: (numbers.put(threading.get_native_id()), asked.wait()))
    thread.start()
    try:
        assert not ProcessIdentity(numbers.get(timeout=10), "another time").send(signal.SIGKILL)
    finally:
        asked.set()
        thread.join()
