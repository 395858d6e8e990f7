"""Which partition a row goes to, and how full the blocks are."""

from itertools import pairwise

import pyarrow as pa
import pytest
from unit.kafka_records.decoding import by_partition
from unit.kafka_records.modelling import NOW_MS

from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode, encode_stream

# Java's murmur2 of "foobar" is -790332482.
FOOBAR_OF_SEVEN = (-790332482 & 0x7FFFFFFF) % 7


def encoded(columns, plan, **options):
    """Return all blocks of a table."""
    return list(encode(pa.table(columns), plan, now_ms=NOW_MS, **options))


def test_own_partition_before_key_before_turn():
    """The column wins over the key, the key over the turn."""
    columns = {
        "value": [b"own", b"key", b"turn"],
        "key": pa.array([b"foobar", b"foobar", None], pa.binary()),
        "partition": pa.array([5, None, None], pa.int64()),
    }
    plan = EncodePlan(partitions={"t": 7}, topic="t")
    found = by_partition(encoded(columns, plan, spread_from=2))
    assert {p: [r.value for r in records] for (_, p), records in found.items()} == {
        5: [b"own"],
        FOOBAR_OF_SEVEN: [b"key"],
        2: [b"turn"],
    }


def test_null_keys_fill_a_block_before_they_move_on():
    """Rows without a key go to one partition per block, in turn from where the caller says."""
    columns = {"value": [bytes(90)] * 1000}
    plan = EncodePlan(partitions={"t": 4}, topic="t", block_bytes=10_000)
    blocks = encoded(columns, plan, spread_from=3)
    rows = {}
    for block in blocks:
        rows[block.partition] = rows.get(block.partition, 0) + block.count
    # 98 rows fit into a block; eleven blocks go to 3, 0, 1, 2, 3 … and the last is a rest.
    assert [block.count for block in sorted(blocks, key=lambda block: -block.count)][:10] == [
        blocks[0].count
    ] * 10
    assert set(rows) == {0, 1, 2, 3}
    assert rows[3] >= rows[0] >= rows[1] >= rows[2]
    small = encoded({"value": [b"a"] * 50}, plan, spread_from=3)
    assert [(block.partition, block.count) for block in small] == [(3, 50)]


def test_turns_go_on_over_windows_and_topics_have_their_own():
    """A stream's next window starts with the next partition, and every topic counts for itself."""
    batch = pa.record_batch({"value": [bytes(100)] * 20, "topic": ["a", "b"] * 10})
    plan = EncodePlan(partitions={"a": 3, "b": 3}, window_bytes=20 * 148)
    blocks = list(encode_stream([batch] * 4, plan, now_ms=1, spread_from=1))
    turns = {}
    for block in blocks:
        turns.setdefault(block.topic, []).append(block.partition)
    assert turns == {"a": [1, 2, 0, 1], "b": [1, 2, 0, 1]}


@pytest.mark.parametrize("partitions", [1, 4, 64, 200])
def test_blocks_are_well_filled(partitions):
    """With rows for many partitions a block still holds what a window has for its partition."""
    rows = 200_000
    columns = {
        "value": pa.array([bytes(100)] * rows),
        "key": pa.array([b"%08d" % number for number in range(rows)]),
    }
    plan = EncodePlan(partitions={"t": partitions}, topic="t")
    blocks = encoded(columns, plan)
    total = sum(block.size_bytes for block in blocks)
    filled = min(plan.block_bytes, total / partitions)
    assert total / len(blocks) > 0.5 * filled
    assert max(block.size_bytes for block in blocks) <= plan.block_bytes


def test_batches_of_a_stream_share_blocks():
    """Small batches do not make small blocks."""
    batch = pa.record_batch({"value": [bytes(100)] * 100, "key": [b"%d" % n for n in range(100)]})
    plan = EncodePlan(partitions={"t": 50}, topic="t")
    blocks = list(encode_stream([batch] * 500, plan, now_ms=1))
    assert sum(block.count for block in blocks) == 50_000
    assert len(blocks) <= 50


def test_a_block_ends_before_its_limit():
    """No block but that of a single row passes the limit, and no row is put off needlessly."""
    plan = EncodePlan(partitions={"t": 1}, topic="t", block_bytes=5_000)
    values = [bytes(number % 700) for number in range(3000)] + [bytes(20_000), b"x", bytes(4_900)]
    blocks = encoded({"value": values}, plan)
    assert all(block.size_bytes <= 5_000 or block.count == 1 for block in blocks)
    great = [block for block in blocks if block.size_bytes > 20_000]
    assert [block.count for block in great] == [1]
    assert sum(block.count for block in blocks) == len(values)
    assert all(a.size_bytes + b.size_bytes > 4_700 for a, b in pairwise(blocks))


def test_a_block_may_be_exactly_full():
    """Rows that fill a block to the last byte stay together; one byte less and they do not."""
    rows = {"value": [bytes(50)] * 4}
    (block,) = encoded(rows, EncodePlan(partitions={"t": 1}, topic="t"))
    exact = EncodePlan(partitions={"t": 1}, topic="t", block_bytes=block.size_bytes)
    assert [one.count for one in encoded(rows, exact)] == [4]
    short = EncodePlan(partitions={"t": 1}, topic="t", block_bytes=block.size_bytes - 1)
    assert [one.count for one in encoded(rows, short)] == [3, 1]


def test_a_block_that_is_kept_keeps_little_else():
    """Blocks share buffers of a few megabytes, however great the window was."""
    plan = EncodePlan(partitions={"t": 1}, topic="t", block_bytes=100_000)
    for block in encoded({"value": [bytes(50_000)] * 500}, plan):
        assert block.body.parent is None or block.body.parent.size < 6 * 2**20


def test_more_targets_than_sixteen_bits():
    """Very many partitions are ordered too."""
    plan = EncodePlan(partitions={"t": 70_000, "u": 10})
    columns = {
        "value": [b"a", b"b", b"c", b"d"],
        "topic": ["u", "t", "t", "u"],
        "partition": [9, 69_999, 0, 0],
    }
    blocks = encoded(columns, plan)
    assert [(block.topic, block.partition) for block in blocks] == [
        ("t", 0),
        ("t", 69_999),
        ("u", 0),
        ("u", 9),
    ]


@pytest.mark.parametrize(
    ("partitions", "given", "megabytes"),
    [
        # A few partitions: what fits into a cache. Many: half a megabyte for each of them.
        (1, {}, 8),
        (16, {}, 8),
        (32, {}, 16),
        (64, {}, 32),
        (1_000, {}, 32),
        # Blocks that a user wants larger have room, as far as memory is bounded.
        (1, {"block_bytes": 2**23}, 16),
        (4, {"block_bytes": 2**26}, 32),
        (4, {"block_bytes": 1_000}, 8),
        (64, {"window_bytes": 2**20}, 1),
    ],
)
def test_a_window_is_as_small_as_the_blocks_allow(partitions, given, megabytes):
    """And never larger than what memory is there for, or than what is given."""
    assert EncodePlan(partitions={"t": partitions}, topic="t", **given).window == megabytes * 2**20


def test_where_topics_come_from_a_column_a_window_has_room_for_many():
    """How many partitions there will be is not known before."""
    assert EncodePlan(partitions={"t": 1}).window == 2**25
