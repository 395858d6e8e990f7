"""The file of a report: found to be writable before the work, and no verdict lost for it after."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twophase.verify.history import History
    from twophase.verify.verdict import Verdict


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, and leave it as it was."""
    folder, target = path.absolute().parent, path.resolve()
    if not folder.is_dir():
        raise click.UsageError(f"--report: {folder} is no folder; make it first")
    there = target.exists()
    try:
        # Tried, because the mode of a file does not tell: a disk may be mounted for reading only.
        with target.open("ab"):
            pass
    except OSError as error:
        raise click.UsageError(
            f"--report {path} cannot be written: {error.strerror}; name another file"
        ) from error
    if not there:
        target.unlink(missing_ok=True)


def written(
    path: Path, history: "History", verdicts: "Sequence[Verdict]", about: str
) -> str | None:
    """Write the report and return where it is; None, after a word on stderr, where it cannot be."""
    from twophase.verify.report import write_report  # noqa: PLC0415 - it imports NumPy

    try:
        write_report(path, history, verdicts, about=about)
    except OSError as error:
        # The verdict must not be lost with it.
        click.echo(f"--report {path} could not be written: {error.strerror}", err=True)
        return None
    return str(path)
