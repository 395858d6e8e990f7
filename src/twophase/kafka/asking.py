"""The same question about many things, side by side."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE: Final = 8


def ask_each(ask: Callable[[T], R], things: Iterable[T]) -> list[R]:
    """Return the answers in the order of the things; raises the first that failed."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(ask, things))
