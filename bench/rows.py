"""The rows that both sides are given, ready-made."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from twophase.kafka.compression import Codec

UNIT = "rows/s"
HEADERS = [("trace", b"00-4bf92f3577b34da6"), ("source", b"orders")]


@dataclass(frozen=True, slots=True)
class Shape:
    """What the rows look like and how they are sent."""

    value_bytes: int = 100
    keys: bool = True
    headers: bool = False
    codec: Codec = Codec.NONE
    partitions: int = 4

    def __str__(self) -> str:
        extras = [name for name in ("keys", "headers") if getattr(self, name)]
        with_extras = " and ".join(extras) or "value only"
        return (
            f"{self.value_bytes} B, {with_extras}, {self.codec.name.lower()},"
            f" {self.partitions} partitions"
        )


class Rows:
    """The same rows for both sides: digits, which compress to about half."""

    def __init__(self, shape: Shape, count: int) -> None:
        # As many bytes for rows of 1,000 as for rows of 100.
        count = max(1, count * 100 // max(shape.value_bytes, 100))
        digits = np.random.default_rng(7).integers(48, 58, count * shape.value_bytes, np.uint8)
        offsets = np.arange(count + 1, dtype=np.int32) * shape.value_bytes
        value = pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(digits)]
        )
        columns: dict[str, pa.Array] = {"value": value}
        self.count = count
        self.values = value.to_pylist()
        self.keys = [b"customer-%d" % number for number in range(count)]
        if shape.keys:
            columns["key"] = pa.array(self.keys, pa.binary())
        if shape.headers:
            kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
            header = [{"key": key, "value": value} for key, value in HEADERS]
            columns["headers"] = pa.array([header] * count, kind)
        self.batch = pa.record_batch(columns)
