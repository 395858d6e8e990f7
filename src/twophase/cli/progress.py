"""A bar on a terminal while a command asks the brokers; nothing where there is none."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

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
