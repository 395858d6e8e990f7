"""Input rows that carry their identity: a row read back tells which it is, and if it is whole.

A value is the JSON text of an order. It begins with the input's name and the row's number, and ends
with a CRC-32 of all that stands before, so that both are read without parsing JSON. Key and place
among the rows of the key follow from the number alone: nothing about single rows needs to be kept.
"""

import re
import zlib
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from twophase.errors import ConfigurationError

# What a row is when it is not one of the input.
CORRUPT: Final = -1
STRANGE: Final = -2

# Numbers are kept in 32 bits.
_ROWS_MAX: Final = 2**31 - 1
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,24}")
_TAIL: Final = re.compile(rb',"check":"[0-9a-f]{8}"}')
_TAIL_BYTES: Final = 20
_ITEMS: Final = ("lamp", "chair", "kettle", "pillow", "mirror", "basket", "carpet")


@dataclass(frozen=True, slots=True)
class Input:
    """Rows 0 to `rows` - 1 of one run; row n is the (n // keys)-th of customer n % keys."""

    name: str
    rows: int
    keys: int = 1000

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"the name of the input is {self.name!r}; allowed are 1 to 24 letters, digits, "
                "dots, dashes and underscores"
            )
        for what, found in (("rows", self.rows), ("keys", self.keys)):
            if not 1 <= found <= _ROWS_MAX:
                raise ConfigurationError(f"{what} is {found}; allowed are 1 to {_ROWS_MAX}")

    def key(self, number: int) -> bytes:
        """Return the Kafka key of a row."""
        return b"customer-%05d" % (number % self.keys)

    def sequence(self, number: int) -> int:
        """Return how many rows of the same key come before this one."""
        return number // self.keys

    def value(self, number: int, now_ms: int) -> bytes:
        """Return the value of a row that is made now."""
        body = (
            f'{self._start}{number},"sequence":{number // self.keys}'
            f',"customer":"customer-{number % self.keys:05d}","time_ms":{now_ms}'
            f',"item":"{_ITEMS[number % 7]}","quantity":{1 + number % 9}'
            f',"amount":"{number * 37 % 100_000 / 100:.2f}"'
        ).encode()
        return b'%b,"check":"%08x"}' % (body, zlib.crc32(body))

    def table(self, first: int, stop: int, now_ms: int) -> pa.Table:
        """Return the rows `first` to `stop` - 1 as the columns that a sink takes."""
        if not 0 <= first <= stop <= self.rows:
            raise ConfigurationError(
                f"rows {first} to {stop} were asked for; input {self.name!r} has 0 to {self.rows}"
            )
        numbers = range(first, stop)
        return pa.table(
            {
                "key": pa.array([self.key(number) for number in numbers], pa.binary()),
                "value": pa.array([self.value(number, now_ms) for number in numbers], pa.binary()),
            }
        )

    def identify(self, key: bytes | None, value: bytes | None) -> int:
        """Return the number of a row that was read, or CORRUPT, or STRANGE.

        CORRUPT is a row that is recognised and not whole: its checksum is wrong, it is cut off, or
        it has another key. STRANGE is any other: no row of a verification, or one of another input.
        """
        start = self._start.encode()
        if value is None:
            return STRANGE
        body, tail = value[:-_TAIL_BYTES], value[-_TAIL_BYTES:]
        whole = tail == b',"check":"%08x"}' % zlib.crc32(body)
        ours = value.startswith(start)
        if not whole:
            return CORRUPT if ours or _TAIL.fullmatch(tail) else STRANGE
        if not ours:
            return STRANGE
        number = int(body[len(start) : body.index(b",", len(start))])
        if not 0 <= number < self.rows:
            return STRANGE
        return number if key == self.key(number) else CORRUPT

    def named(self, number: int) -> str:
        """Return a row's name for people."""
        key = self.key(number).decode()
        return f"row {number} ({key}, sequence {self.sequence(number)})"

    @property
    def _start(self) -> str:
        return f'{{"input":"{self.name}","number":'
