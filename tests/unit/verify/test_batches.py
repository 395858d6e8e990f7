"""Which batch a row belongs to, from the offsets that Spark planned."""

import json

import pytest

from twophase.errors import ConfigurationError
from twophase.verify.batches import Batches, planned

from .planting import Topic


def plan(folder, number, **ends):
    (folder / "offsets").mkdir(exist_ok=True)
    sources = json.dumps(
        {topic: {str(p): end for p, end in at.items()} for topic, at in ends.items()}
    )
    path = folder / "offsets" / str(number)
    path.write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n' + sources)


def test_rows_belong_to_the_batch_that_read_their_place():
    """Ends per partition; what lies behind the last end belongs to no batch."""
    topic = Topic(rows=60)
    ends = list(topic.ends())
    found = Batches.by_offsets(topic.input, topic.seen(), {4: ends[0], 5: ends[1]})
    assert found.of_row.tolist() == [4] * 20 + [5] * 20 + [-1] * 20


def test_a_batch_may_read_nothing_of_a_partition():
    """Neither a partition that it does not name nor one that did not grow."""
    topic = Topic(rows=60)
    first, second, _ = topic.ends()
    found = Batches.by_offsets(topic.input, topic.seen(), {0: first, 1: first, 2: second})
    assert found.of_row.tolist() == [0] * 20 + [2] * 20 + [-1] * 20
    only = Batches.by_offsets(topic.input, topic.seen(), {0: {1: 1000}})
    assert {n for n in range(60) if only.of_row[n] == 0} == {
        n for n in range(60) if topic.home(n) == 1
    }


@pytest.mark.parametrize("partition", [0, 1])
def test_a_source_that_holds_a_row_twice_is_refused(partition):
    """Nobody could say which batch it belongs to."""
    topic = Topic()
    topic.log[partition].append(topic.made(30))
    with pytest.raises(ConfigurationError, match="rows that the source has twice"):
        Batches.by_offsets(topic.input, topic.seen(), {0: {0: 1}})


def test_a_plan_that_goes_back_is_refused():
    """A later batch cannot end before an earlier one."""
    topic = Topic()
    with pytest.raises(ConfigurationError, match=r"source partition 0 go back: \[5, 3\]"):
        Batches.by_offsets(topic.input, topic.seen(), {0: {0: 5}, 1: {0: 3}})


def test_the_plan_is_read_from_a_checkpoint(tmp_path):
    """Spark's own files, of the source topic only."""
    plan(tmp_path, 0, orders={0: 10, 1: 20}, others={0: 1})
    plan(tmp_path, 1, orders={0: 15, 1: 20})
    (tmp_path / "offsets" / ".1.crc").write_bytes(b"x")
    assert planned(tmp_path, "orders") == {0: {0: 10, 1: 20}, 1: {0: 15, 1: 20}}
    with pytest.raises(ConfigurationError, match="plans no batch that reads topic 'nothing'"):
        planned(tmp_path, "nothing")
