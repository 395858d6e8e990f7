"""Dead letters: rows that cannot be written, as rows of the dead-letter topic.

Key, value and headers are the row's own, and headers that begin with `twophase.reject.` say why it
is here and where it was meant to go. Its timestamp is that of the rejection, so that retention
counts from then; the row's own is in a header. There is Python for every letter, and for no other
row.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from twophase.errors import RowRejected
from twophase.kafka.blocks import HEADER_BYTES
from twophase.kafka.columns import MISSING, as_bytes, read_rows
from twophase.kafka.dead_letters import DeadLetters
from twophase.kafka.faults import Reason

PREFIX: Final = "twophase.reject."
# Lengths, attributes, deltas and counts of a record that is alone in its block, at most.
_FIELDS_BYTES: Final = 32
_TOPIC_BYTES_MAX: Final = 1_000

Pair: TypeAlias = tuple[bytes, bytes | None]
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.large_binary())]))
_SCHEMA: Final = pa.schema(
    [("key", pa.large_binary()), ("value", pa.large_binary()), ("headers", _HEADERS)]
)


def letters_of(
    rows: pa.RecordBatch, why: Sequence[tuple[Reason, str]], topic: str | None, dead: DeadLetters
) -> pa.RecordBatch:
    """Return a letter for each row, with its reason and the sentence about it.

    `topic` is that of all rows; without, each has its own.
    """
    numbers = read_rows(rows)
    own = _headers_of(rows)
    topics = [topic.encode()] * len(rows) if topic else _cells(rows, "topic")
    headers = []
    for row, (reason, sentence) in enumerate(why):
        said: dict[str, Any] = {"reason": reason.value, "message": sentence}
        said |= _cut("topic", topics[row], _TOPIC_BYTES_MAX)
        for name, column in (("partition", numbers.partitions), ("timestamp", numbers.timestamps)):
            if column is not None and column[row] != MISSING:
                said[name] = int(column[row])
        said |= {"sink": dead.sink_id, "batch": dead.batch, "run": dead.run_id}
        headers.append(own[row] + _pairs(said))
    return _batch(_column(rows, "key"), _column(rows, "value"), headers)


def cut_letter(letter: pa.RecordBatch, limit: int) -> pa.RecordBatch:
    """Return a letter that fits into a block of `limit` bytes: its value cut, then its key.

    Headers have the whole length and the SHA-256 of what was cut. A letter whose headers alone do
    not fit is raised: nothing of a row is dropped without a word.
    """
    key, value = (letter.column(name)[0].as_py() for name in ("key", "value"))
    (own,) = _headers_of(letter)
    lengths = {"value": len(value or b""), "key": len(key or b"")}
    # All that may be said of a cut, to see what room is left.
    most = _batch([None], [None], [own + _pairs(_cut("value", b"", -1) | _cut("key", b"", -1))])
    counted = 2 * len(str(sum(lengths.values())))
    room = limit - HEADER_BYTES - _FIELDS_BYTES - int(_header_bytes(most)) - counted
    if room < 0:
        raise RowRejected(
            f"a row that cannot be written has headers of {_header_bytes(letter)} bytes, and the "
            f"dead-letter topic takes {limit} for a row, so that it fits nowhere; raise the "
            "dead-letter topic's max.message.bytes",
            size=_header_bytes(letter),
            limit=limit,
        )
    key_room = min(lengths["key"], room)
    said = _cut("value", value, room - key_room) | _cut("key", key, key_room)
    key, value = said.pop("key"), said.pop("value")
    return _batch([key], [value], [own + _pairs(said)])


def _cut(name: str, content: bytes | None, most: int) -> dict[str, Any]:
    """Return the content, and where it is longer than allowed its beginning and what it was."""
    if content is None or len(content) <= most:
        return {name: content}
    return {
        name: content[: max(most, 0)],
        f"{name}.bytes": len(content),
        f"{name}.sha256": hashlib.sha256(content).hexdigest(),
    }


def _pairs(said: dict[str, Any]) -> list[Pair]:
    return [
        (f"{PREFIX}{name}".encode(), found if isinstance(found, bytes) else str(found).encode())
        for name, found in said.items()
        if found is not None
    ]


def _headers_of(rows: pa.RecordBatch) -> list[list[Pair]]:
    """Return each row's own headers; a key that is null, which no record can have, is empty."""
    found = read_rows(rows).headers
    if found is None:
        return [[] for _ in range(len(rows))]
    keys = as_bytes(found.keys).fill_null(b"").to_pylist()
    pairs = list(zip(keys, as_bytes(found.values).to_pylist(), strict=True))
    ends = np.cumsum(found.counts)
    return [
        pairs[end - count : end]
        for end, count in zip(ends.tolist(), found.counts.tolist(), strict=True)
    ]


def _header_bytes(letter: pa.RecordBatch) -> int:
    found = read_rows(letter).headers
    return 0 if found is None else int(found.sizes[0])


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    if name not in rows.schema.names:
        return pa.nulls(len(rows), pa.large_binary())
    return as_bytes(rows.column(name))


def _cells(rows: pa.RecordBatch, name: str) -> list[bytes | None]:
    return _column(rows, name).to_pylist()  # type: ignore[no-any-return]


def _batch(
    keys: pa.Array | list[bytes | None],
    values: pa.Array | list[bytes | None],
    headers: list[list[Pair]],
) -> pa.RecordBatch:
    flat = [pair for row in headers for pair in row]
    # Not through Python's text: a header's key is kept as it came, whether or not it is text.
    names = pa.array([name for name, _ in flat], pa.binary()).view(pa.string())
    contents = pa.array([content for _, content in flat], pa.large_binary())
    pairs = pa.StructArray.from_arrays([names, contents], fields=list(_HEADERS.value_type))
    offsets = pa.array([0, *np.cumsum([len(row) for row in headers]).tolist()], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pairs)
    columns = [
        column if isinstance(column, pa.Array) else pa.array(column, pa.large_binary())
        for column in (keys, values)
    ]
    return pa.RecordBatch.from_arrays([*columns, lists], schema=_SCHEMA)
