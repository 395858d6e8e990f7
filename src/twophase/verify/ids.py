"""Rows that are known by an id of the user's own: a field of the JSON value, or the key."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from twophase.errors import ConfigurationError
from twophase.verify.rows import CORRUPT, STRANGE, Input
from twophase.verify.seen import ReadRow

# The name that stands for Kafka's own key.
KEY: Final = "key"


@dataclass(frozen=True, slots=True)
class Ids(Input):
    """The rows of a run without faults; each is a key of its own, so that no order is known."""

    column: str = KEY
    numbers: dict[str, int] = field(default_factory=dict, repr=False)
    texts: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, name: str, column: str, rows: Iterable[ReadRow]) -> Self:
        """Return the ids of what a reader saw; refuse a column that does not identify rows."""
        numbers: dict[str, int] = {}
        for row in rows:
            found = id_in(column, row.key, row.value)
            where = f"the row at {row.partition}:{row.offset} of the run without faults"
            if found is None:
                raise ConfigurationError(
                    f"--id-column {column}: {where} has none; give a field that the JSON of every "
                    f"value has, or {KEY} for Kafka's key"
                )
            if found in numbers:
                raise ConfigurationError(
                    f"--id-column {column} does not identify rows: {where} has the id {found} of a "
                    "row before it; give a column whose values are there once"
                )
            numbers[found] = len(numbers)
        if not numbers:
            raise ConfigurationError(
                "the pipeline wrote no row in the run without faults; nothing can be proved by it"
            )
        return cls(name, len(numbers), len(numbers), column, numbers, tuple(numbers))

    def identify(self, key: bytes | None, value: bytes | None) -> int:
        """Return the number of the row with this id, or CORRUPT without one, or STRANGE."""
        found = id_in(self.column, key, value)
        return CORRUPT if found is None else self.numbers.get(found, STRANGE)

    def named(self, number: int) -> str:
        """Return a row's id."""
        return f"{self.column} {self.texts[number]}"


def id_in(column: str, key: bytes | None, value: bytes | None) -> str | None:
    """Return the id of a row as text; None where it has none."""
    if column == KEY:
        return None if key is None else key.decode("utf-8", "backslashreplace")
    try:
        found = json.loads(value or b"null")
    except ValueError:
        return None
    one = found.get(column) if isinstance(found, dict) else None
    return None if one is None else json.dumps(one, sort_keys=True)
