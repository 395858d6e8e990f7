"""The columns of an Arrow batch as the encoder works on them: types checked, lengths measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from twophase.errors import ConfigurationError
from twophase.kafka.varint import Ints, sizes_of

Bools: TypeAlias = npt.NDArray[np.bool_]
Longs: TypeAlias = npt.NDArray[np.int64]

MISSING: Final = int(np.iinfo(np.int64).min)
_ROW_BYTES: Final = 48
_MOST_SECONDS: Final = int(np.iinfo(np.int64).max) // 1000


@dataclass(frozen=True, slots=True)
class Headers:
    """Each row's headers: how many, their encoded bytes without the count, and all of them flat."""

    counts: Longs
    sizes: Longs
    keys: pa.Array
    values: pa.Array


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of a batch: the byte columns as they came, everything else as numbers.

    Lengths are -1 for null, as on the wire; `timestamps` and `partitions` are MISSING for null.
    """

    value: pa.Array
    value_lengths: Ints
    key: pa.Array | None
    key_lengths: Ints | None
    headers: Headers | None
    timestamps: Longs | None
    partitions: Longs | None

    def __len__(self) -> int:
        return len(self.value_lengths)

    def weights(self) -> Longs:
        """Return what each row weighs: its bytes, and the numbers kept about it and its headers."""
        weights = self.value_lengths + np.int64(_ROW_BYTES)
        if self.key_lengths is not None:
            weights += self.key_lengths
        if self.headers is not None:
            weights += self.headers.sizes + _ROW_BYTES * self.headers.counts
        return weights

    def timestamps_or(self, now_ms: int) -> Longs | None:
        """Fill in `now_ms` where a row has no timestamp; None where no row has one."""
        if self.timestamps is None:
            return None
        return np.where(self.timestamps == MISSING, now_ms, self.timestamps)


def check_schema(schema: pa.Schema, *, topic_needed: bool) -> None:
    """Refuse unknown, doubled and missing columns and wrong types, each by name."""
    for field in schema:
        if field.name not in _COLUMNS:
            raise ConfigurationError(
                f"column {field.name!r} has no place in a Kafka record;"
                f" allowed are {', '.join(_COLUMNS)}"
            )
        if len(schema.get_all_field_indices(field.name)) > 1:
            raise ConfigurationError(f"column {field.name!r} is there more than once")
        allowed, fits = _COLUMNS[field.name]
        if not fits(field.type):
            raise ConfigurationError(
                f"column {field.name!r} is of type {field.type}; allowed are {allowed}"
            )
    if "value" not in schema.names:
        raise ConfigurationError("column 'value' is missing; every Kafka record has one")
    if topic_needed and "topic" not in schema.names:
        raise ConfigurationError("column 'topic' is missing, and no topic is set for the sink")


def read_rows(batch: pa.RecordBatch) -> Rows:
    """Measure the batch's columns; no byte of a key or value is copied or looked at."""
    columns: dict[str, pa.Array] = dict(zip(batch.schema.names, batch.columns, strict=True))
    key, headers = columns.get("key"), columns.get("headers")
    return Rows(
        value=columns["value"],
        value_lengths=lengths_of(columns["value"]),
        key=key,
        key_lengths=None if key is None else lengths_of(key),
        headers=None if headers is None else _read_headers(headers),
        timestamps=_milliseconds(columns.get("timestamp")),
        partitions=_optional(columns.get("partition")),
    )


def lengths_of(column: pa.Array) -> Ints:
    """Return the bytes of every row, -1 for null; nothing is decoded."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        of_entry = pa.array(lengths_of(column.dictionary), pa.int64())
        return of_entry.take(column.indices).fill_null(-1).to_numpy()  # type: ignore[no-any-return]
    lengths: Ints
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        # The length is the first of a view's four numbers.
        views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)
        lengths = views[column.offset : column.offset + len(column), 0].copy()
    else:
        offsets = offsets_of(column)
        lengths = offsets[1:] - offsets[:-1]
    if column.null_count:
        lengths[~valid(column)] = -1
    return lengths


def offsets_of(column: pa.Array) -> Ints:
    """Return where each row begins in the column's bytes, and where the last one ends."""
    wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    dtype = np.dtype(np.int64 if wide else np.int32)
    if not len(column):
        return np.zeros(1, dtype)  # an empty array need not have offsets
    begin = column.offset * dtype.itemsize
    return np.frombuffer(column.buffers()[1], dtype, len(column) + 1, begin)


def with_offsets(column: pa.Array) -> pa.Array:
    """Decode a dictionary or views into bytes that lie one after the other; others stay as is."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        return column.cast(pa.large_binary())
    return column


def as_bytes(column: pa.Array) -> pa.Array:
    """Return the column's bytes, which need not be text even where the column says so."""
    return with_offsets(column).cast(pa.large_binary())


def valid(column: pa.Array) -> Bools:
    """Return where the column is not null."""
    return pc.is_valid(column).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _read_headers(column: pa.Array) -> Headers:
    offsets = column.offsets.to_numpy()
    counts = (offsets[1:] - offsets[:-1]).astype(np.int64)
    if column.null_count:
        counts[~valid(column)] = 0
    elements = column.flatten()
    by_name = {elements.type.field(at).name: at for at in range(elements.type.num_fields)}
    # Flattening a struct gives a null header a null key, which the row checks refuse.
    parts = elements.flatten()
    keys, values = parts[by_name["key"]], parts[by_name["value"]]
    ends = np.zeros(len(elements) + 1, np.int64)
    for lengths in (lengths_of(keys), lengths_of(values)):
        ends[1:] += sizes_of(lengths)
        ends[1:] += np.maximum(lengths, 0)
    np.cumsum(ends, out=ends)
    stops = np.cumsum(counts)
    return Headers(counts, ends[stops] - ends[stops - counts], keys, values)


def _optional(column: pa.Array | None) -> Longs | None:
    """Read integers with MISSING for null, and for nothing else."""
    if column is None:
        return None
    known = column.cast(pa.int64()).fill_null(0) if column.null_count else column.cast(pa.int64())
    numbers = np.maximum(known.to_numpy(), MISSING + 1)
    return np.where(valid(column), numbers, MISSING) if column.null_count else numbers


def _milliseconds(column: pa.Array | None) -> Longs | None:
    """Read milliseconds since 1970; what 64 bits of milliseconds cannot hold becomes negative."""
    if column is None or not pa.types.is_timestamp(column.type):
        return _optional(column)
    raw = _optional(column.view(pa.int64()))
    unit = column.type.unit
    if raw is None or unit == "ms":
        return raw
    if unit == "s":
        scaled = np.where(np.abs(raw) <= _MOST_SECONDS, raw * 1000, -1)
    else:
        scaled = raw // (1000 if unit == "us" else 1_000_000)
    return np.where(raw == MISSING, MISSING, scaled) if column.null_count else scaled


def _is_bytes(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in _BYTE_KINDS)


def _is_bytes_or_dictionary(kind: pa.DataType) -> bool:
    return _is_bytes(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _is_timestamp(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_int64(kind))


def _is_partition(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int32(kind) or pa.types.is_int64(kind))


def _is_headers(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    header = kind.value_type
    if not pa.types.is_struct(header) or sorted(field.name for field in header) != ["key", "value"]:
        return False
    key, value = header.field("key").type, header.field("value").type
    # Java's header keys are strings: bytes that are none could not be read back.
    return _is_bytes(value) and any(is_kind(key) for is_kind in _TEXT_KINDS)


_TEXT_KINDS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)
_BYTE_KINDS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    *_TEXT_KINDS,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)
_BYTES_ALLOWED: Final = (
    "string, binary, large_string, large_binary, string_view, binary_view or a dictionary of these"
)
_COLUMNS: Final[dict[str, tuple[str, Callable[[pa.DataType], bool]]]] = {
    "key": (_BYTES_ALLOWED, _is_bytes_or_dictionary),
    "value": (_BYTES_ALLOWED, _is_bytes_or_dictionary),
    "headers": ("list<struct<key: string, value: binary>>", _is_headers),
    "timestamp": ("timestamp, or int64 milliseconds", _is_timestamp),
    "partition": ("int32, int64", _is_partition),
    "topic": (_BYTES_ALLOWED, _is_bytes_or_dictionary),
}
