"""Sides that take turns, so that what the machine does meanwhile falls on all of them alike."""

from collections.abc import Callable, Sequence
from typing import TypeVar

S = TypeVar("S")
R = TypeVar("R")


def turn_by_turn(
    sides: Sequence[S], runs: int, act: Callable[[S], R], *, warm_up: int = 0
) -> list[tuple[R, ...]]:
    """Return what each side's runs gave; `warm_up` more come before them and are left out."""
    found: list[list[R]] = [[] for _ in sides]
    for _ in range(runs + warm_up):
        for values, side in zip(found, sides, strict=True):
            values.append(act(side))
    return [tuple(values[warm_up:]) for values in found]
