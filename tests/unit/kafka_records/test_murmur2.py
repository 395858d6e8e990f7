"""The key hash, against the Java client's own vectors and kafka-python's plain implementation."""

import random
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as plain_murmur2

from twophase.kafka.partitioner import murmur2, partitions_of

JAVA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
KINDS = [pa.binary(), pa.large_binary()]


def expected(keys):
    """Hash one by one, as kafka-python does."""
    return [plain_murmur2(key) & 0xFFFFFFFF for key in keys]


def test_java_vectors():
    """The values of the Java client's own test come out."""
    hashes = murmur2(pa.array(JAVA_VECTORS, pa.binary()))
    assert hashes.view(np.int32).tolist() == list(JAVA_VECTORS.values())


@pytest.mark.parametrize("length", range(40))
def test_keys_of_one_length(length):
    """Keys of one length, which are read without an index, hash as any others do."""
    keys = [random.Random(seed).randbytes(length) for seed in range(20)]
    assert murmur2(pa.array(keys, pa.binary())).tolist() == expected(keys)


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=40), st.sampled_from(KINDS), st.data())
def test_any_keys(keys, kind, data):
    """Any keys, and any slice of them, hash as the plain implementation does."""
    start = data.draw(st.integers(0, len(keys)))
    stop = data.draw(st.integers(start, len(keys)))
    part = pa.array(keys, kind).slice(start, stop - start)
    assert murmur2(part).tolist() == expected(keys[start:stop])


@pytest.mark.parametrize("seed", range(5))
def test_keys_of_very_different_lengths(seed):
    """A few long keys among many short ones go through every way of mixing."""
    rng = random.Random(seed)
    keys = [rng.randbytes(rng.choice([0, 1, 3, 4, 7, 8, 30, 300])) for _ in range(3000)]
    keys += [rng.randbytes(rng.randrange(2000, 9000)) for _ in range(rng.choice([1, 40, 100]))]
    rng.shuffle(keys)
    assert murmur2(pa.array(keys, pa.binary())).tolist() == expected(keys)


@pytest.mark.parametrize(("long_keys", "length"), [(1, 1_000_000), (60, 40_000)])
def test_long_keys_among_many_cost_their_own_bytes_only(long_keys, length):
    """Long keys beside 200,000 short ones add their own time, not a step for all rows."""
    short = [b"12345678"] * 200_000 + [b"1234567"]
    keys = pa.array(short + [bytes(length)] * long_keys, pa.binary())
    start = time.thread_time()
    murmur2(keys)
    # A step for all rows per word of the longest key would take most of a minute.
    assert time.thread_time() - start < 3


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 200, 2**31 - 1])
def test_partitions_are_java_s(count):
    """The partition is toPositive(murmur2(key)) % count."""
    keys = [b"key-%d" % number for number in range(500)]
    wanted = [(plain_murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    assert partitions_of(pa.array(keys, pa.binary()), count).tolist() == wanted
    per_row = np.full(len(keys), count)
    assert partitions_of(pa.array(keys, pa.binary()), per_row).tolist() == wanted
