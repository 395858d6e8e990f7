"""What a run says: lines for people, events for programs, exit codes for schedulers."""

import io
import json
import logging
import signal

import click
import pytest
from rich.console import Console
from support.terminal import Screen
from unit.pipeline.files import changed

from twophase import errors
from twophase.cli import run_text
from twophase.cli.main import run
from twophase.cli.run import run as command
from twophase.cli.run_spark import quiet_logs
from twophase.cli.run_text import TextTeller, line_of, status_line
from twophase.observe import BatchRecord
from twophase.pipeline.endings import Ending, ending_of, restart_may_help
from twophase.pipeline.events import (
    BatchDone,
    Restarting,
    Started,
    Status,
    Stopped,
    Stopping,
)
from twophase.pipeline.stopping import stop_by_signals


def record(batch, **more):
    given = {"rows": 10, "total_s": 1.0, "error": None, "path": "driver", "outcome": "committed"}
    return BatchRecord(
        sink_id="s", owner="o", batch=batch, run_id=None, guarantee="exactly-once", **given | more
    )


def test_the_status_line():
    """Rows per second, batch, phase, lag, transaction age and limit, restarts."""
    status = Status(
        batch=7,
        phase="send",
        rows=12_000,
        rows_per_s=1234.5,
        lag=99_000,
        transaction_age_s=1.25,
        transaction_limit_s=60.0,
        restarts=2,
    )
    assert status_line(status) == (
        "batch 7 done, 1,234 rows/s, 12,000 rows, lag 99,000, transaction open 1.2 of 60 s, "
        "2 restarts, send"
    )
    assert status_line(Status()) == "no batch yet, 0 rows/s, 0 rows, starting"


def test_plain_lines_elsewhere(capsys, monkeypatch):
    """Not one for each batch: what came since the last line; errors and the end at once."""
    monkeypatch.setattr(run_text, "_LINE_EVERY_S", 3600.0)
    with TextTeller() as tell:
        tell(Started("orders", "/c", ("s",)))
        for batch in range(50):
            tell(BatchDone(record(batch)))
            tell(Status(batch=batch, rows_per_s=5.0, lag=3))
        tell(Restarting("gone", 1, 3, 2.0))
        tell(BatchDone(record(50, error="TWOPHASE_FENCED: no", outcome="failed", rows=0)))
        tell(Stopping(51))
        tell(Stopped("stopped as asked", 49, 500, 1, {"kafka": {"t": {"0": 7}}}))
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "orders runs: sinks s",
        "s: batch 0, 10 rows, 5 rows/s, lag 3",
        "s: batch 49, 490 rows, 5 rows/s, lag 3",
        "the query failed: gone; it is started again in 2 s (1 of 3)",
        "batch 50 of s failed: TWOPHASE_FENCED: no",
        "stopping: batch 51 ends; once more (Ctrl-C, SIGTERM) ends it at once",
        "stopped as asked: the last batch is 49, 500 rows written; kafka up to {'t': {'0': 7}}",
    ]
    assert err == ""


def test_one_line_that_moves_on_a_terminal(monkeypatch):
    """The status is drawn over itself, and gone at the end."""
    screen = io.StringIO()
    monkeypatch.setattr(
        run_text, "Console", lambda **_: Console(file=screen, force_terminal=True, width=100)
    )
    with TextTeller() as tell:
        for batch in range(3):
            tell(Status(batch=batch, phase="commit"))
    drawn = screen.getvalue()
    assert all(f"batch {batch} done" in drawn for batch in range(3))
    assert drawn.count("\x1b[2K") >= 3


@pytest.fixture
def screen(monkeypatch):
    """What is drawn, as a person sees it."""
    drawn = io.StringIO()
    monkeypatch.setattr(
        run_text, "Console", lambda **_: Console(file=drawn, force_terminal=True, width=100)
    )

    def seen():
        found = Screen()
        found.write(drawn.getvalue().replace("\n", "\r\n"))
        return found

    return seen


def test_lines_go_where_stdout_goes(screen, capsys):
    """A file or a pipe gets them, also where the line moves on a terminal."""
    with TextTeller() as tell:
        tell(Started("orders", "/c", ("s",)))
        tell(Status(batch=1))
        print("of a step of the user's own")
        assert [line.split(",")[0] for line in screen().lines if line] == ["batch 1 done"]
        tell(Stopped("stopped as asked", 1, 20, 0))
    assert capsys.readouterr().out.splitlines() == [
        "orders runs: sinks s",
        "of a step of the user's own",
        "stopped as asked: the last batch is 1, 20 rows written",
    ]
    assert [line for line in screen().lines if line] == []


def test_warnings_stand_above_the_line(screen):
    """Each in a line of its own, and without secrets."""
    log = logging.getLogger("twophase.of.a.test")
    with quiet_logs(lambda text: text.replace("canary", "***")), TextTeller() as tell:
        tell(Status(batch=1))
        log.warning("sent again: %s", "canary")
        tell(Status(batch=2))
        above, line = (line for line in screen().lines if line)
        assert (above, line.split(",")[0]) == ("WARNING: sent again: ***", "batch 2 done")
    assert [line for line in screen().lines if line] == ["WARNING: sent again: ***"]
    assert screen().cursor_is_shown
    assert screen().at_the_beginning_of_a_line


def test_dead_letters_are_told(capsys):
    """How many rows were put aside, where there are some."""
    with TextTeller() as tell:
        tell(BatchDone(record(0, rejected_rows=3)))
        tell(Status(batch=0))
    assert capsys.readouterr().out == "s: batch 0, 10 rows, 3 dead letters\n"


def test_exit_codes():
    """Whether to start again is told by the code alone."""
    assert ending_of(errors.StoreUnavailable("x")) is Ending.FAILED
    assert ending_of(errors.CommitOutcomeUnknown("x")) is Ending.FAILED
    assert ending_of(RuntimeError("x")) is Ending.FAILED
    assert ending_of(errors.ConfigurationError("x")) is Ending.WRONG
    assert ending_of(errors.Fenced("x")) is Ending.TAKEN_OVER
    for kind in (errors.OwnedByAnother, errors.MarkerMissing, errors.RowRejected):
        assert ending_of(kind("x")) is Ending.NEEDS_A_PERSON
    assert ending_of(errors.AccessDenied("x")) is Ending.NEEDS_A_PERSON
    assert restart_may_help(errors.TransactionExpired("x"))
    assert not restart_may_help(errors.ProtocolViolation("x"))


def test_every_code_is_in_the_help():
    """A scheduler's author reads it there."""
    with click.Context(command) as context:
        said = command.get_help(context)
    assert all(f"{int(ending)} " in said for ending in Ending)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give the file of a pipeline; --help shows a small one"),
        (["none.yaml"], "File 'none.yaml' does not exist"),
        (["--mastre", "x"], "Did you mean '--master'?"),
        (["--output", "xml"], "'xml' is not one of 'text', 'json'"),
    ],
)
def test_half_said(arguments, said, capsys):
    """One sentence, exit code 2."""
    assert run(["run", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_mistakes_by_the_command(tmp_path, capsys):
    """Each in a line; no Spark is started."""
    path = tmp_path / "p.yaml"
    path.write_text(changed("name:", "nam:").replace("topic: orders\n", "topic:\n", 1))
    assert run(["run", str(path)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{path}:1:1: 'nam' is no key")
    assert second.startswith(f"{path}:6:5: ")
    assert run(["run", str(path), "--output", "json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["error_code"] == "TWOPHASE_CONFIGURATION"
    assert [(each["line"], each["column"]) for each in told["mistakes"]] == [(1, 1), (6, 5)]


def test_the_schema_is_printed(capsys):
    """For editors."""
    assert run(["run", "--schema"]) == 0
    assert '"title": "A pipeline of twophase"' in capsys.readouterr().out


def test_the_second_signal_ends_at_once():
    """The first one asks; afterwards signals mean what they meant before."""
    before = signal.getsignal(signal.SIGTERM)
    with stop_by_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before


def test_events_are_json_values():
    """A batch is its record, flat."""
    told = BatchDone(record(3)).told()
    assert (told["event"], told["batch"], told["sink_id"]) == ("batch", 3, "s")
    assert line_of(Status()) == ""
