"""A command whose output cannot be written: one sentence and a code of its own, or silence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TWOPHASE = [sys.executable, "-m", "twophase"]
UNWRITTEN = 74
COMMANDS = [["--help"], ["kafka", "status"], ["kafka", "status", "--output", "json"]]
every_form = pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TWOPHASE_HOME", str(tmp_path))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@every_form
def test_a_full_disk(arguments):
    """One sentence on stderr, and a code that no verdict and no finding has."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*TWOPHASE, *arguments], stdout=full, stderr=subprocess.PIPE, check=False, text=True
        )
    said = "the output could not be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (UNWRITTEN, said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_for_an_error():
    """Its exit code stays, with nowhere to write the sentence or the object."""
    with Path("/dev/full").open("w") as full:
        asked = [*TWOPHASE, "sinks", "list", "--output", "json"]
        done = subprocess.run(asked, stdout=full, stderr=full, check=False)
    assert done.returncode == 2


@every_form
def test_a_reader_that_is_gone(arguments):
    """As with `| head`: not a word."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*TWOPHASE, *arguments], stdout=write, stderr=subprocess.PIPE, check=False, text=True
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (UNWRITTEN, "")


@every_form
def test_a_stdout_that_was_closed_from_the_start(arguments):
    """Nobody wants the output: the command does its work."""
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *TWOPHASE, *arguments]
    done = subprocess.run(closed, stderr=subprocess.PIPE, check=False, text=True)
    running = 3 if "status" in arguments else 0
    assert (done.returncode, done.stderr) == (running, "")
