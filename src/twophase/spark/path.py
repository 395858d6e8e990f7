"""Which way a batch takes: through the driver, or over Spark's workers; decided before it runs.

A small batch is faster through the driver: a hop to a Python worker and a shuffle cost more than
encoding a few thousand rows. How large a batch will be is not known before it is computed, so it is
guessed from the batch before and from the range of source offsets; a wrong guess costs a second
execution of the plan, never memory (driver_path.py).

What the workers encode is routed through Spark to those that send it, or, where all of them share
the driver's machine, left in files there for the driver to send (local_path.py).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from twophase.options import one_of

_SMALL_ROWS: Final = 10_000
_SMALL_BYTES: Final = 4_000_000
# Compressed and on average, far below what a light row may be.
_LIGHT_BYTES: Final = 500


class Path(StrEnum):
    """The way of one batch, or the wish for all of them."""

    AUTO = "auto"
    DRIVER = "driver"
    ROUTED = "routed"
    LOCAL = "local"

    @classmethod
    def parse(cls, value: str) -> "Path":
        """Return the path of this name, or say which there are."""
        return one_of(cls, "path", value)


@dataclass(frozen=True, slots=True)
class Size:
    """A batch that was written: rows and bytes out, and rows in where the sources tell.

    `heavy` says that this one or one before had rows that were taken to be light and were not.
    """

    rows: int
    bytes: int
    rows_in: int | None = None
    heavy: bool = False


def likely_light(before: Size | None) -> bool:
    """Tell whether a stream's rows are likely to be light, after the batch `before`.

    The first batch tells; and whoever had a heavy row once may have one in every batch.
    """
    return (
        before is not None
        and not before.heavy
        and before.rows > 0
        and before.bytes / before.rows <= _LIGHT_BYTES
    )


def choose(wish: Path, before: Size | None, rows_in: int | None, large: Path) -> Path:
    """Return the path for a batch that reads `rows_in` rows, after the batch `before` it.

    `large` is the one for batches that are not small.
    """
    if wish is not Path.AUTO:
        return wish
    if before is None or before.rows_in == 0:
        # The first batch of a run is often a backlog: where nothing is known, expect much.
        small = rows_in is not None and rows_in <= _SMALL_ROWS
        return Path.DRIVER if small else large
    growth = rows_in / before.rows_in if rows_in is not None and before.rows_in else 1.0
    small = before.rows * growth <= _SMALL_ROWS and before.bytes * growth <= _SMALL_BYTES
    return Path.DRIVER if small else large
