"""What `twophase run` prints where nobody may be there to read it: that is not how it ends."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click


def say_anything() -> None:
    """Let stdout take every character, as stderr does: a topic's name must not end a query."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


@contextmanager
def unheard() -> Iterator[None]:
    """Go on where whoever reads is gone, or a disk is full."""
    with suppress(OSError):
        yield


def complain(said: str) -> None:
    """Print a sentence on stderr, if it can be."""
    with unheard():
        click.echo(said, err=True)


def drop_unwritten() -> None:
    """Let go of what could not be written: Python would try once more, and end by its own code."""
    for stream in (sys.stdout, sys.stderr):
        # None where it was closed from the start.
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            with suppress(OSError), open(os.devnull, "wb") as nowhere:  # noqa: PTH123
                os.dup2(nowhere.fileno(), stream.fileno())
