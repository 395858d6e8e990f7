"""What a person sees on stderr while something takes its time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


@contextmanager
def counting(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar that the yielded function moves on; plain lines where there is no terminal."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.print(f"{title} ({total}) ...")
        yield lambda: None
        console.print(f"{title}: done")
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show a spinner; one plain line where there is no terminal."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.print(f"{title} ...")
        yield
        return
    with console.status(title):
        yield
