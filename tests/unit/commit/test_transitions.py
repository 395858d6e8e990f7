"""The document of the machine is the machine's own table."""

from pathlib import Path

from twophase.commit.machine import TABLE
from twophase.commit.transitions import transitions_markdown

PAGE = Path(__file__).parents[3] / "docs" / "machine.md"


def test_the_page_is_current():
    """Every transition is on the page as the code has it."""
    assert PAGE.read_text().endswith(transitions_markdown())
    assert transitions_markdown().count("\n") == len(TABLE) + 2
