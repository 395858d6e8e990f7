"""A run whose reader is gone, whose disk is full, or whose streams are closed."""

import os
import subprocess
import sys
import threading

import pytest
from support.waiting import wait_until
from unit.pipeline.stream import Stream, runner_of

from twophase.cli import run_spark
from twophase.embedded.process import ProcessIdentity
from twophase.errors import StoreUnavailable
from twophase.pipeline.stopping import Stop

COMMAND = [sys.executable, "-m", "twophase", "run"]


def reader_gone():
    """Return a pipe's end whose other end is closed."""
    reads, writes = os.pipe()
    os.close(reads)
    return open(writes, "w")  # noqa: PTH123


def test_the_reader_goes_in_the_middle_of_a_batch():
    """The batch is finished, none begins after it, and the code says that it was no good end."""
    gone, written = threading.Event(), []
    with reader_gone() as pipe:

        def tell(_event):
            try:
                os.write(pipe.fileno(), b"told")
            except BrokenPipeError:
                gone.set()
                raise

        def sink(_frame, batch):
            assert gone.wait(10)
            written.append(batch)

        stop = Stop(pytest.fail)
        runner, told = runner_of(Stream(10_000_000), lambda: sink, tell=tell, stop=stop)
        with pytest.raises(StoreUnavailable, match=r"Broken pipe.*stopped after batch"):
            runner.run()
    assert written == list(range(runner.batch + 1))
    assert len(told) == 1


@pytest.fixture
def wrong_file(tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text("nam: x\n")
    return path


def ended(arguments, **streams):
    return subprocess.run(arguments, check=False, text=True, timeout=60, **streams)


@pytest.mark.parametrize("output", ["text", "json"])
def test_mistakes_that_nobody_hears(wrong_file, output):
    """The code is that of the mistakes."""
    command = [*COMMAND, str(wrong_file), "--output", output]
    mute, heard = ("stdout", "stderr") if output == "json" else ("stderr", "stdout")
    with reader_gone() as pipe, open("/dev/full", "w") as full:  # noqa: PTH123
        for lost in (pipe, full):
            done = ended(command, **{mute: lost, heard: subprocess.PIPE})
            assert done.returncode == 2
            # A person may see stderr; programs are not told what was meant for people.
            assert ("'nam' is no key" in getattr(done, heard)) == (output == "json")
            assert "Traceback" not in getattr(done, heard)
    closed = ended(["sh", "-c", '"$@" >&- 2>&-', "sh", *command])
    assert closed.returncode == 2


TELLS = """\
import sys
from twophase.cli.run_json import JsonTeller
from twophase.cli.run_text import TextTeller
from twophase.pipeline.events import Started
for teller in (JsonTeller, TextTeller):
    with teller() as tell:
        tell(Started("p", "/c", ("s",)))
print("told", file=sys.stderr)
"""


def test_stdout_is_closed_from_the_start():
    """There is nobody to tell, which is no failure."""
    done = ended(
        ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-c", TELLS], stderr=subprocess.PIPE
    )
    assert (done.returncode, done.stderr) == (0, "told\n")


NAMES = """\
from twophase.cli.run_output import say_anything
from twophase.cli.run_text import TextTeller
from twophase.pipeline.events import Started
say_anything()
with TextTeller() as tell:
    tell(Started("\\u4e2d", "/c", ("s",)))
"""


def test_a_name_that_the_encoding_does_not_have():
    """It is written by its number."""
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = ended([sys.executable, "-c", NAMES], stdout=subprocess.PIPE, env=env)
    assert (done.returncode, done.stdout) == (0, "\\u4e2d runs: sinks s\n")


AT_ONCE = """\
import subprocess, sys
from pathlib import Path
from types import SimpleNamespace
from twophase.cli.run_spark import AtOnce
java = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(java.pid, flush=True)
session = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=java)))
AtOnce(session, Path("/tmp/spark.log"))()
"""


def at_once(**streams):
    """Return how it ended, once nothing of it is there any more."""
    done = ended([sys.executable, "-c", AT_ONCE], stdout=subprocess.PIPE, **streams)
    # Its parent has gone without waiting for it, so somebody else does, soon.
    java = int(done.stdout)
    wait_until(lambda: ProcessIdentity.of(java) is None)
    return done


def test_the_end_at_once_where_stderr_is_gone():
    """It ends all the same, and Spark's JVM with it."""
    with reader_gone() as pipe:
        assert at_once(stderr=pipe).returncode == 130
    assert at_once(preexec_fn=lambda: os.close(2)).returncode == 130


def test_the_end_at_once_names_the_log():
    """Nobody else will: the process is gone."""
    assert at_once(stderr=subprocess.PIPE).stderr == (
        "Spark's own log is /tmp/spark.log\n"
        "ended at once: no batch was finished; the next start goes on there\n"
    )


def test_somebody_cleans_up_the_log(capsys):
    """By the age of the file; a good end stays one."""
    with run_spark._log_file(None) as (_, path):
        path.unlink()
    assert capsys.readouterr() == ("", "")
    with pytest.raises(KeyboardInterrupt), run_spark._log_file(None) as (_, path):
        raise KeyboardInterrupt
    path.unlink()
    assert capsys.readouterr().err == f"Spark's own log is {path}\n"
