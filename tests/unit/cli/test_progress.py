"""The bar of a command that asks brokers."""

import io

import pytest
from rich.console import Console

from twophase.cli import progress
from twophase.cli.main import run


@pytest.fixture
def terminal(monkeypatch):
    """Make the console a terminal that can be read."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(progress, "Console", lambda **_: console)
    return screen


def test_a_bar_on_a_terminal_only(terminal, monkeypatch, capsys):
    """A terminal sees it move; a program's stderr stays empty."""
    with progress.bar("looking") as start:
        advance = start(2)
        advance()
        advance()
    assert "2/2" in terminal.getvalue()
    monkeypatch.undo()
    with progress.bar("looking") as start:
        start(1)()
    assert capsys.readouterr().err == ""


def test_a_bar_while_the_brokers_are_looked_for(terminal, tmp_path, capsys):
    """An address where nobody answers takes its time, and that is seen; then one sentence."""
    config = tmp_path / "quick.properties"
    config.write_text("max.block.ms=500\nbootstrap.servers=127.0.0.1:1\n")
    assert run(["sinks", "list", "--command-config", str(config)]) == 1
    assert "finding the brokers" in terminal.getvalue()
    assert "no answer from kafka.bootstrap.servers" in capsys.readouterr().err


@pytest.mark.parametrize(("total", "shown"), [(9, "7/9"), (None, "7/?")])
def test_a_meter_on_a_terminal_only(terminal, monkeypatch, capsys, total, shown):
    """A terminal sees how much, and a word beside it; a program's stderr stays empty."""
    with progress.meter("rows visible", total) as moved:
        moved(7, "pause 1")
    assert shown in terminal.getvalue()
    assert "pause 1" in terminal.getvalue()
    monkeypatch.undo()
    with progress.meter("rows visible", total) as moved:
        moved(7, "pause 1")
    assert capsys.readouterr().err == ""
