"""Each routed partition in a Spark partition of its own.

Spark 4.1 has `repartitionById` for this, 4.0 has not; so the column is hashed, as every version
does, over numbers whose hash is known. All rows of one routed partition go to one Spark partition
whatever the hash is: a Spark that hashed otherwise would spread them less evenly, never wrongly.
A given number of partitions is one that adaptive execution does not merge.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SEED: Final = 42
# A number for every index is found long before, but for a chance of e to the power of -64.
_TRIES: Final = 64
_MASK: Final = 0xFFFFFFFF


def placed(frame: "DataFrame", column: str, count: int) -> "DataFrame":
    """Return the frame with the rows of each index 0 .. count-1 alone in one of its partitions."""
    if count == 1:
        return frame.repartition(1)
    # A text: a tree of columns costs a call of the JVM for each of its nodes.
    table = ", ".join(map(str, landing_numbers(count)))
    return frame.repartition(count, sql.expr(f"get(array({table}), {column})"))


@lru_cache(maxsize=64)
def landing_numbers(count: int) -> tuple[int, ...]:
    """Return for each index the first number that Spark's hash partitioning puts there."""
    found: dict[int, int] = {}
    for number in range(count * _TRIES):
        found.setdefault(_murmur3(number) % count, number)
        if len(found) == count:
            break
    return tuple(found.get(index, index) for index in range(count))


def _murmur3(number: int) -> int:
    """Return Spark's hash of an int, signed as in Java; Python's % is then Spark's pmod."""
    mixed = _rotated(number * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    result = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    result ^= 4  # the length of an int in bytes
    result = (result ^ result >> 16) * 0x85EBCA6B & _MASK
    result = (result ^ result >> 13) * 0xC2B2AE35 & _MASK
    result ^= result >> 16
    return result - (1 << 32) if result >> 31 else result


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _MASK
