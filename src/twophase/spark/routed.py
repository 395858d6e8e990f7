"""The form in which blocks travel between Spark's tasks: few, large, opaque rows.

A row is a block with its label, or the manifest of one encode attempt for one routed partition,
told apart by a null topic, or the mark of an encode task that has met a heavy row. Where a block
lies in a file (block_files.py) its row has no body, and says where in the file it begins.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from twophase.commit.manifest import Label, Manifest, Part
from twophase.kafka.blocks import Block
from twophase.kafka.compression import Codec

SCHEMA: Final = pa.schema(
    [
        ("routed", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("task", pa.int32()),
        ("attempt", pa.int64()),
        ("sequence", pa.int32()),
        ("rows", pa.int32()),
        ("bytes", pa.int64()),
        ("checksum", pa.int64()),
        ("digest", pa.string()),
        ("base_ms", pa.int64()),
        ("max_ms", pa.int64()),
        ("codec", pa.int32()),
        ("offset", pa.int64()),
        ("body", pa.binary()),
    ]
)
# The same in Spark's words.
SPARK_SCHEMA: Final = (
    "routed int, topic string, partition int, task int, attempt long, sequence int, rows int,"
    " bytes long, checksum long, digest string, base_ms long, max_ms long, codec int, offset long,"
    " body binary"
)
_MANIFEST, _HEAVY = -1, -2
_LABEL_FIELDS: Final = tuple(field.name for field in fields(Label))
_BUNDLE_BYTES: Final = 1_000_000
# Each partition's blocks in their order, and side by side with those of the other partitions: so
# one request carries blocks for many of them.
ORDER: Final = ("routed", "task", "sequence", "topic", "partition")


class Bundle:
    """Blocks of one encode task that travel together, as the rows of one Arrow batch.

    A batch costs the worker and the JVM as much as a small block: a topic with many partitions has
    many of them.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[int, Label, Block]] = []
        self._bytes = 0

    def add(self, routed: int, label: Label, block: Block) -> Iterator[pa.RecordBatch]:
        """Take one block on its way to a routed partition; yield those before it if it is full."""
        if self._bytes + block.body.size > _BUNDLE_BYTES:
            yield from self.rows()
        self._parts.append((routed, label, block))
        self._bytes += block.body.size

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield what is in it, if anything is, and begin anew."""
        parts, self._parts, self._bytes = self._parts, [], 0
        if parts:
            yield _block_rows(parts)

    def close(self) -> None:
        """Forget what is in it."""
        self._parts = []


def _block_rows(parts: list[tuple[int, Label, Block]]) -> pa.RecordBatch:
    rows = rows_batch([label_row(*part) for part in parts])
    bodies = _bodies([block.body for _, _, block in parts])
    return rows.set_column(rows.schema.get_field_index("body"), "body", bodies)


def rows_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Return rows in the form in which they travel; what they do not tell is null."""
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def label_row(routed: int, label: Label, block: Block) -> dict[str, Any]:
    """Return all that is known of a block but its body."""
    return {name: getattr(label, name) for name in _LABEL_FIELDS} | {
        "routed": routed,
        "base_ms": block.base_timestamp_ms,
        "max_ms": block.max_timestamp_ms,
        "codec": int(block.codec),
    }


def _bodies(bodies: list[pa.Buffer]) -> pa.Array:
    """Return the bodies as cells; one that is alone, which may be large, is not copied."""
    data = bodies[0] if len(bodies) == 1 else pa.py_buffer(b"".join(bodies))
    offsets = pa.array([0, *accumulate(body.size for body in bodies)], pa.int32())
    return pa.Array.from_buffers(pa.binary(), len(bodies), [None, offsets.buffers()[1], data])


def manifest_rows(manifests: Iterable[tuple[int, Manifest]]) -> pa.RecordBatch:
    """Return the manifests of one encode attempt, one for each routed partition."""
    rows = [
        {
            "routed": routed,
            "partition": -1,
            "task": manifest.task,
            "attempt": manifest.attempt,
            "sequence": _MANIFEST,
            "rows": manifest.blocks,
            "digest": manifest.digest,
        }
        for routed, manifest in manifests
    ]
    return rows_batch(rows)


def heavy_mark() -> pa.RecordBatch:
    """Return the row that says: there is a row which is not light, so none of this is whole."""
    row = {"routed": 0, "partition": -1, "task": -1, "attempt": -1, "sequence": _HEAVY}
    return rows_batch([row])


def has_heavy(labels: pa.Table) -> bool:
    """Whether an encode task has met a heavy row."""
    return bool(pc.any(pc.equal(labels.column("sequence"), _HEAVY)).as_py())


def parts_of(labels: pa.Table, routed: int) -> list[Part]:
    """Return the routed partitions that the rows without their bodies speak of."""
    parts = [Part(index, [], []) for index in range(routed)]
    for row in labels.to_pylist():
        part: Any = parts[row["routed"]]
        if row["topic"] is None:
            manifest = Manifest(row["task"], row["attempt"], row["rows"], row["digest"])
            part.manifests.append(manifest)
        else:
            part.labels.append(_label(row))
    return parts


def blocks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Block]:
    """Yield the blocks among the rows, in the order in which they lie; bodies are not copied."""
    for batch in batches:
        bodies = batch.column("body")
        for at, row in enumerate(batch.drop_columns(["body"]).to_pylist()):
            if row["topic"] is not None:
                yield block_of(row, bodies[at].as_buffer())


def block_of(row: dict[str, Any], body: pa.Buffer) -> Block:
    """Return the block that a row tells of."""
    return Block(
        topic=row["topic"],
        partition=row["partition"],
        count=row["rows"],
        base_timestamp_ms=row["base_ms"],
        max_timestamp_ms=row["max_ms"],
        codec=Codec(row["codec"]),
        body=body,
    )


def _label(row: dict[str, Any]) -> Label:
    return Label(
        topic=row["topic"],
        partition=row["partition"],
        task=row["task"],
        attempt=row["attempt"],
        sequence=row["sequence"],
        rows=row["rows"],
        bytes=row["bytes"],
        checksum=row["checksum"],
    )
