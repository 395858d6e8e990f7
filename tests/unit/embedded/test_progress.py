"""What is shown while something takes its time."""

import io

import pytest
from rich.console import Console

from twophase.embedded import progress


@pytest.fixture
def terminal(monkeypatch):
    """Make the console a terminal that can be read."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(progress, "Console", lambda **_: console)
    return screen


def test_plain_lines_without_a_terminal(capsys):
    """A log file gets one line at the beginning and one at the end, on stderr."""
    with progress.counting("fetching", 3) as advance:
        advance()
    with progress.waiting("starting"):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "fetching (3) ...\nfetching: done\nstarting ...\n"


def test_bar_and_spinner_on_a_terminal(terminal):
    """A terminal gets a bar that moves and a spinner."""
    with progress.counting("fetching", 2) as advance:
        advance()
        advance()
    with progress.waiting("starting"):
        pass
    assert "2/2" in terminal.getvalue()
    assert "starting" in terminal.getvalue()
