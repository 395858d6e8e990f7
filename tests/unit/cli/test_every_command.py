"""Every command of the tree, as a new user would try it: one clear sentence, never a traceback."""

import json
from pathlib import Path

import click
import pytest

from twophase.cli.main import run, twophase

# Nothing listens there.
NOBODY = "127.0.0.1:1"
# What a command needs beside an address; one that is new has to be put in here.
NEEDED = {
    ("check",): ["--sink-id", "orders", "--topic", "orders"],
    ("sinks", "list"): [],
    ("sinks", "show"): ["orders"],
    ("sinks", "adopt"): ["orders", "--owner", "q", "--not-committed", "1", "--yes"],
    ("sinks", "reset"): ["orders", "--yes"],
    ("transactions", "list"): [],
    ("transactions", "abort"): ["twophase.orders", "--yes"],
    ("verify",): [],
}
# Without arguments there is nothing wrong with these: what is asked for is so.
FINE = {("kafka", "stop")}


def leaves(command, path=()):
    """Yield every command that is no group, with the words that call it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, each in command.commands.items():
        yield from leaves(each, (*path, name))


LEAVES = dict(leaves(twophase))
every_command = pytest.mark.parametrize("path", LEAVES, ids=" ".join)


def limited(command):
    """Yield the options of a command that do not take every text."""
    for each in command.params:
        text = isinstance(each.type, click.types.StringParamType)
        if isinstance(each, click.Option) and not (each.is_flag and not each.flag_value):
            taken = text or isinstance(each.type, click.types.BoolParamType)
            if not taken and not (isinstance(each.type, click.Path) and not each.type.exists):
                yield each.opts[0]


VALUES = [(path, option) for path, command in LEAVES.items() for option in limited(command)]


@pytest.fixture(autouse=True)
def bare_machine(tmp_path, monkeypatch):
    """No Java, no jars, no cluster: nothing that a command begins can be begun."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("TWOPHASE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def tried(capfd):
    """Run a command; return its exit code, stdout, and the sentence on stderr."""

    def tried(*arguments):
        code = run(arguments)
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        usage = ("Usage: ", "Try ")
        said = [line for line in err.splitlines() if line and not line.startswith(usage)]
        return code, out, said

    return tried


@every_command
def test_no_arguments(path, tried):
    """What is missing is said, in one sentence."""
    code, out, said = tried(*path)
    if path in FINE:
        assert (code, said) == (0, [])
    elif path == ("kafka", "status"):
        assert (code, out, said) == (3, "Kafka is not running\n", [])
    else:
        assert (code, len(said)) in {(1, 1), (2, 1)}, said


@every_command
def test_an_unknown_option(path, tried):
    """A usage error, by its name."""
    code, out, said = tried(*path, "--no-such-option")
    assert (code, out) == (2, "")
    assert len(said) == 1
    assert said[0].startswith("Error: No such option: --no-such-option") or (
        said[0].startswith("Error: No such option '--no-such-option'")
    )


@pytest.mark.parametrize(("path", "option"), VALUES)
def test_an_unknown_value(path, option, tried):
    """The option is named, and the value."""
    code, out, said = tried(*path, option, "no-such-value")
    assert (code, out, len(said)) == (2, "", 1), said
    assert said[0].startswith(f"Error: Invalid value for '{option}'")
    assert "no-such-value" in said[0]


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, command in LEAVES.items()
        if "--bootstrap-server" in {name for each in command.params for name in each.opts}
    ],
    ids=" ".join,
)
def test_no_broker(path, tried, tmp_path, monkeypatch):
    """The address is named; with --output json a program is told the same on stdout."""
    monkeypatch.undo()  # `verify` wants Java and the connector before it looks for brokers.
    config = Path(tmp_path / "quick.properties")
    config.write_text("max.block.ms=200")
    where = ["--bootstrap-server", NOBODY, "--command-config", str(config)]
    code, out, said = tried(*path, *NEEDED[path], *where, "--output", "json")
    assert (code, len(said)) in {(1, 1), (2, 1), (3, 1)}
    assert f"no answer from kafka.bootstrap.servers={NOBODY}" in said[0]
    assert json.loads(out) == {
        "event": "failed",
        "code": code,
        "error": said[0],
        "error_code": "TWOPHASE_STORE_UNAVAILABLE",
    }


@every_command
def test_a_wrong_command_for_programs(path, tried):
    """A usage error is an object on stdout too, also where the command line cannot be parsed."""
    code, out, said = tried(*path, "--no-such-option", "--output=json")
    told = json.loads(out)
    assert (told["event"], told["code"], code) == ("failed", 2, 2)
    assert told["error_code"] is None
    assert said == [f"Error: {told['error']}"]


@pytest.mark.parametrize("path", NEEDED, ids=" ".join)
def test_no_address(path, tried):
    """The same sentence and the same exit code, whichever command it is."""
    code, out, said = tried(*path, *NEEDED[path])
    assert (code, out, len(said)) == (2, "", 1)
    assert "give --bootstrap-server HOST:PORT" in said[0]
