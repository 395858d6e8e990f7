"""Which path a batch takes, and what a checkpoint says of the rows that it reads."""

import json

import pytest

from twophase.errors import ConfigurationError
from twophase.kafka.identity import TopicPartition
from twophase.kafka.progress import has_idle_source, progress_in, rows_between
from twophase.spark.path import Path, Size, choose, likely_light

DRIVER, ROUTED = Path.DRIVER, Path.ROUTED


@pytest.mark.parametrize(
    ("before", "rows_in", "path"),
    [
        (None, None, ROUTED),
        (None, 10_000, DRIVER),
        (None, 10_001, ROUTED),
        (Size(100, 1_000), None, DRIVER),
        (Size(10_001, 1_000), None, ROUTED),
        (Size(100, 4_000_001), None, ROUTED),
        # Ten rows out for each row in: a thousand and one in are too many.
        (Size(1_000, 1_000, rows_in=100), 1_000, DRIVER),
        (Size(1_000, 1_000, rows_in=100), 1_001, ROUTED),
        (Size(1_000, 1_000_000, rows_in=100), 401, ROUTED),
        # A batch that read nothing tells nothing.
        (Size(0, 0, rows_in=0), 1_000_000, ROUTED),
        (Size(0, 0, rows_in=0), 10, DRIVER),
        (Size(100_000, 1_000, rows_in=100_000), 10, DRIVER),
    ],
)
def test_choice(before, rows_in, path):
    """Small by the batch before and the rows to read: the driver; unknown or large: routed."""
    assert choose(Path.AUTO, before, rows_in, ROUTED) is path


@pytest.mark.parametrize("wish", [Path.DRIVER, Path.ROUTED, Path.LOCAL])
def test_a_wish_is_a_choice(wish):
    """Whatever is known of the batch."""
    assert choose(wish, None, 10, ROUTED) is wish


def test_large_batches_go_the_way_that_the_master_allows():
    """Where driver and workers share a disk, what would be routed stays in files."""
    assert choose(Path.AUTO, None, None, Path.LOCAL) is Path.LOCAL
    assert choose(Path.AUTO, None, 10, Path.LOCAL) is DRIVER


@pytest.mark.parametrize(
    ("before", "light"),
    [
        (None, False),
        (Size(0, 0), False),
        (Size(1_000, 500_000), True),
        (Size(1_000, 501_000), False),
        (Size(1_000, 1_000, heavy=True), False),
    ],
)
def test_light_rows_are_likely_after_light_rows(before, light):
    """By the batch before, unless one of them had a heavy row."""
    assert likely_light(before) is light


def test_a_path_that_does_not_exist():
    """Those that do are named."""
    with pytest.raises(ConfigurationError, match="path='direct' is not allowed; write one of au"):
        Path.parse("direct")


def content(*sources):
    """A file offsets/N as Spark writes it."""
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}}
    return "\n".join(["v1", json.dumps(metadata), *sources]).encode()


def test_progress_of_kafka_sources():
    """Every partition of every Kafka source; files, rates and idle sources are left out."""
    found = progress_in(
        content('{"a":{"0":5,"1":7}}', '{"logOffset":3}', "17", "-", '{"b":{"0":1}}')
    )
    assert found == {
        TopicPartition("a", 0): 5,
        TopicPartition("a", 1): 7,
        TopicPartition("b", 0): 1,
    }


def test_progress_of_the_slower_of_two_sources():
    """Two sources read one partition: the group may only say what both have read."""
    assert progress_in(content('{"a":{"0":5}}', '{"a":{"0":3}}')) == {TopicPartition("a", 0): 3}


@pytest.mark.parametrize("strange", [b"", b"v2\n{}\n{}", b"v1", b"v1\n{}\n[1]", b"\xff\xfe"])
def test_a_file_of_another_kind_says_nothing(strange):
    """What is not understood is not guessed."""
    assert progress_in(strange) == {}


def test_a_source_without_an_offset_yet():
    """It may be Kafka, and nobody can tell."""
    assert has_idle_source(content("-", "17"))
    assert not has_idle_source(content("17"))


def test_rows_between_two_batches():
    """The sum of what every partition moved on; unknown where one is new or none is Kafka's."""
    a0, a1 = TopicPartition("a", 0), TopicPartition("a", 1)
    assert rows_between({a0: 5, a1: 5}, {a0: 7, a1: 10}) == 7
    assert rows_between({a0: 5}, {a0: 7, a1: 10}) is None
    assert rows_between({a0: 5}, {a0: 3}) == 0
    assert rows_between({}, {}) is None
