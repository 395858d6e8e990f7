"""Show what will be done, and go on only with a person's yes."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def asking(command: F) -> F:
    """Give a command the option --yes."""
    return click.option("--yes", is_flag=True, help="Do not ask; for scripts.")(command)


def confirm(lines: Sequence[str], *, yes: bool) -> None:
    """Show lines on stderr, where they are in no program's way, and go on only with a yes."""
    click.echo("\n".join(lines), err=True)
    if yes:
        return
    # None where it was closed from the start.
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.ClickException(
            "nothing was changed: there is no terminal to ask at; give --yes to go on without"
        )
    # Not click.confirm, which writes to stdout even when it is told not to.
    click.echo("Go on? [y/N] ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise click.ClickException("nothing was changed")
