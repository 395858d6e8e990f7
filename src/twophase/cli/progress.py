"""A bar on a terminal while a command asks the brokers; nothing where there is none."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Meter = Callable[[int, str], None]
Start = Callable[[int], Callable[[], None]]


@contextmanager
def bar(title: str) -> Iterator[Start]:
    """Show a bar on stderr that goes away at the end: told the total, it returns what moves it."""
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        # Without a total it pulses.
        task = progress.add_task(title, total=None)

        def start(total: int) -> Callable[[], None]:
            progress.update(task, total=total)
            return lambda: progress.advance(task)

        yield start


@contextmanager
def meter(title: str, total: int | None) -> Iterator[Meter]:
    """Show a bar on stderr for something long: told how much is done, and a word beside it.

    Without a total it pulses.
    """
    console = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(title, total=total, said="")
        yield lambda done, said: progress.update(task, completed=done, said=said)
