"""Blocks that travel together: few Arrow batches, each within its bound, nothing lost."""

import pyarrow as pa

from twophase.commit.manifest import Label
from twophase.kafka.blocks import Block
from twophase.kafka.compression import Codec
from twophase.spark.routed import Bundle, blocks_of, parts_of

SMALL, LARGE = 300_000, 5_000_000


def made(number, size):
    body = pa.py_buffer(bytes([number % 256]) * size)
    block = Block("orders", number % 64, number + 1, 10 + number, 20 + number, Codec.ZSTD, body)
    label = Label(
        "orders",
        number % 64,
        task=3,
        attempt=7,
        sequence=number // 64,
        rows=number + 1,
        bytes=block.size_bytes,
        checksum=number * 11,
    )
    return number % 2, label, block


def bundled(parts):
    bundle = Bundle()
    batches = [batch for part in parts for batch in bundle.add(*part)]
    return [*batches, *bundle.rows()]


def test_blocks_come_back_as_they_were():
    """Every block and every label is there, in order, whatever they travelled with."""
    parts = [made(number, 1 + 977 * number) for number in range(150)]

    batches = bundled(parts)

    assert list(blocks_of(batches)) == [block for _, _, block in parts]
    found = parts_of(pa.Table.from_batches(batches).drop_columns(["body"]), 2)
    for routed in (0, 1):
        assert found[routed].labels == [label for at, label, _ in parts if at == routed]
        assert found[routed].manifests == []


def test_small_blocks_share_a_batch_within_its_bound():
    """Many small blocks are few batches, none of them larger than a megabyte."""
    batches = bundled([made(number, SMALL) for number in range(40)])

    assert [len(batch) for batch in batches] == [3] * 13 + [1]
    assert max(batch.nbytes for batch in batches) < 1_010_000


def test_a_large_block_travels_alone_and_is_not_copied():
    """What is larger than a bundle is a batch of its own, in the buffer it came in."""
    parts = [made(0, SMALL), made(1, LARGE), made(2, SMALL)]

    batches = bundled(parts)

    assert [len(batch) for batch in batches] == [1, 1, 1]
    assert batches[1].column("body").buffers()[2].address == parts[1][2].body.address


def test_nothing_makes_no_batch():
    """A task without blocks sends no batch of blocks."""
    assert bundled([]) == []
