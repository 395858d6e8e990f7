"""How a run ends: by what its sinks raise, wherever they raise it."""

import json
import logging
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from unit.pipeline.stream import Stream, runner_of

from twophase.cli.run_spark import spark_session
from twophase.errors import StoreUnavailable
from twophase.pipeline import runner as module
from twophase.pipeline.endings import Ending, ending_of
from twophase.pipeline.events import Restarting, Stopped
from twophase.pipeline.runner import ASKED_AND_FAILED, DRAINED
from twophase.pipeline.stopping import Stop
from twophase.spark import pipeline_session

COMMAND = [sys.executable, "-m", "twophase", "run"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "_LOOK_S", 0.01)


def restarts(told):
    return [event.restart for event in told if isinstance(event, Restarting)]


def codes(told):
    return [event.error_code for event in told if isinstance(event, Restarting)]


class Sink:
    """A user's sink; `closing` is what its close() does."""

    def __init__(self, write=lambda _batch: None, closing=lambda: None):
        self._write, self._closing = write, closing
        self.written, self.closed = [], False

    def __call__(self, _frame, batch):
        self._write(batch)
        self.written.append(batch)

    def close(self):
        self.closed = True
        self._closing()


def raising(error):
    def act(*_):
        raise error

    return act


@pytest.mark.parametrize("error", [SystemExit(0), SystemExit(), KeyboardInterrupt()])
def test_a_sink_that_exits_has_failed(error):
    """sys.exit(0) in a batch is no end of the source; the run fails as by any other error."""
    runner, told = runner_of(Stream(2), lambda: Sink(raising(error)), restarts=1)
    with pytest.raises(RuntimeError, match=f"a sink raised {type(error).__name__}") as raised:
        runner.run()
    assert ending_of(raised.value) is Ending.FAILED
    assert restarts(told) == [1]


def test_a_constructor_that_exits_has_failed():
    """Also when the sinks are made anew."""
    runner, _ = runner_of(Stream(2), raising(SystemExit(0)), restarts=0)
    with pytest.raises(RuntimeError, match="a sink raised SystemExit"):
        runner.run()


def test_what_a_constructor_raises_counts_as_a_failure_of_the_query():
    """A database may be away just when the sinks are made; those made before are closed."""
    first, makes = [], [raising(StoreUnavailable("not now")), raising(OSError("no")), Sink]

    def make_first():
        first.append(Sink())
        return first[-1]

    def make_second():
        return makes.pop(0)()

    runner, told = runner_of(Stream(2), make_first, make_second)
    assert runner.run().why == DRAINED
    assert restarts(told) == [1, 2]
    assert codes(told) == ["TWOPHASE_STORE_UNAVAILABLE", None]
    assert [(each.closed, each.written) for each in first] == [
        (True, []),
        (True, []),
        (True, [0, 1]),
    ]


def test_what_the_start_raises_counts_as_a_failure_of_the_query():
    """The checkpoint's store may be away for a moment."""
    stream = Stream(2, refuses=[OSError("no answer"), None])
    runner, told = runner_of(stream, Sink)
    assert runner.run().why == DRAINED
    assert (stream.starts, restarts(told)) == (2, [1])


def test_a_sink_that_cannot_be_closed_changes_nothing(caplog):
    """Neither how the run ended, nor that the other sinks are closed."""
    made = []

    def make():
        made.append(Sink(closing=raising(SystemExit(0) if made else ValueError("is broken"))))
        return made[-1]

    runner, _ = runner_of(Stream(1), make, make)
    with caplog.at_level(logging.WARNING):
        assert runner.run().why == DRAINED
    assert [each.closed for each in made] == [True, True]
    assert "sink s0 could not be closed: is broken" in caplog.text


def where(told):
    return [(event.why, event.batch, event.offsets) for event in told if isinstance(event, Stopped)]


def test_a_signal_in_the_pause_before_a_restart():
    """The error is told, and where it stopped, as for an orderly end."""
    stop = Stop()

    def write(batch):
        if batch == 2:
            raise StoreUnavailable("not now")

    def tell(event):
        if isinstance(event, Restarting):
            stop.signalled()

    runner, told = runner_of(Stream(9), lambda: Sink(write), stop=stop, tell=tell)
    with pytest.raises(StoreUnavailable, match="not now"):
        runner.run()
    assert where(told) == [(ASKED_AND_FAILED, 1, {"Rate": 1})]


def test_a_failure_while_stopping():
    """The batch under way fails once somebody has asked for the end."""
    stop = Stop()

    def write(batch):
        if batch == 2:
            stop.signalled()
            raise StoreUnavailable("not now")

    runner, told = runner_of(Stream(9), lambda: Sink(write), stop=stop)
    with pytest.raises(StoreUnavailable, match="not now"):
        runner.run()
    assert where(told) == [(ASKED_AND_FAILED, 1, {"Rate": 1})]
    assert restarts(told) == []


def test_a_failure_that_nobody_has_asked_for():
    """It has no word of an end that was asked for."""
    runner, told = runner_of(Stream(9), lambda: Sink(raising(OSError("no"))), restarts=0)
    with pytest.raises(OSError, match="no"):
        runner.run()
    assert where(told) == []


PIPELINE = """\
source: {rate: {rows_per_second: 1}}
sinks:
  - kafka:
      sink_id: a
      topic: t
      options:
        kafka.bootstrap.servers: 127.0.0.1:1
        kafka.sasl.jaas.config: "${env:CANARY}"
checkpoint: state
"""
# Where a part fails in a way that nobody has thought of.
_BROKEN = """\
import sys
from twophase import errors
from twophase.cli.main import run
def broken(*_):
    raise {error}
import {module} as module
module.{part} = broken
sys.exit(run(["run", {path!r}, *{arguments!r}]))
"""


def broken(path, error, *arguments, module="twophase.cli.run", part="one_run"):
    path.write_text(PIPELINE)
    text = _BROKEN.format(
        module=module, part=part, error=error, path=str(path), arguments=arguments
    )
    return subprocess.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CANARY": "canary-of-a-test"},
    )


@pytest.mark.parametrize(
    "error", ["OSError('canary-of-a-test\\nand more')", "SystemExit('canary-of-a-test')"]
)
def test_an_error_that_nobody_thought_of_is_a_sentence(tmp_path, error):
    """Its first line, with nothing of a secret, and the code for a failure."""
    done = broken(tmp_path / "p.yaml", error)
    name = error.partition("(")[0]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"the run failed: {name}: ***\n"


@pytest.mark.parametrize(
    ("part", "error", "ending", "code"),
    [
        ("one_run", "OSError('no')", Ending.FAILED, None),
        ("one_run", "errors.StoreUnavailable('no')", Ending.FAILED, "TWOPHASE_STORE_UNAVAILABLE"),
        ("one_run", "errors.Fenced('no')", Ending.TAKEN_OVER, "TWOPHASE_FENCED"),
        # Before anything is loaded.
        ("_check_pyspark", "errors.SetupError('no')", Ending.NEEDS_A_PERSON, "TWOPHASE_SETUP"),
    ],
)
def test_the_code_of_an_error_for_programs(tmp_path, part, error, ending, code):
    """Every command's error has it, under one name; null where it is no error of this package."""
    done = broken(tmp_path / "p.yaml", error, "--output", "json", part=part)
    told = json.loads(done.stdout)
    assert (done.returncode, told["code"], told["error_code"]) == (ending, ending, code)


def test_an_error_before_secrets_are_known(tmp_path):
    """It is told where it comes from, and not what it says."""
    error = "OSError('canary-of-a-test')"
    done = broken(
        *(tmp_path / "p.yaml", error), module="twophase.pipeline.load", part="load_pipeline"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "the pipeline could not be loaded: OSError in <string>, line 5\n"


_SLOW = """\
import time
print("importing", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("output", ["text", "json"])
def test_a_signal_while_the_file_is_loaded(tmp_path, number, output):
    """One word and the code for it, also while a module of the user's is imported."""
    (tmp_path / "slow_sink.py").write_text(_SLOW)
    path = tmp_path / "p.yaml"
    path.write_text(
        "source: {rate: {rows_per_second: 1}}\ncheckpoint: state\n"
        "sinks: [python: {sink_id: a, name: 'slow_sink:Sink'}]\n"
    )
    process = subprocess.Popen(
        [*COMMAND, str(path), "--output", output],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "importing\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == int(Ending.ABORTED)
    if output == "json":
        told = json.loads(out)
        assert (told["event"], told["code"], told["error"]) == ("failed", 130, "interrupted")
        assert err == ""
    else:
        assert (out, err) == ("", "interrupted\n")


def test_a_signal_while_spark_stops(monkeypatch):
    """The run has ended well, and still has; what signals meant before comes back."""
    stopped = []

    def stop():
        signal.raise_signal(signal.SIGTERM)
        stopped.append(True)

    gateway = SimpleNamespace(proc=None)
    session = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway), stop=stop)
    monkeypatch.setattr(pipeline_session, "start_session", lambda *_, **__: session)
    loaded = SimpleNamespace(name="p", conf={}, secret_conf=(), modules=())
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with spark_session(loaded, "local", "-") as spark:
            assert not spark.stop.asked
        assert (stopped, spark.stop.asked) == ([True], True)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
