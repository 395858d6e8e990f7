"""Blocks for tests: rows that carry their identity, encoded by the package itself."""

import time

import pyarrow as pa

from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode


def blocks(topic, values, *, partition=0, partitions=None, key=None):
    """Return the blocks of these values for one partition, or by key over `partitions`."""
    columns = {"value": pa.array(values, pa.binary())}
    if key is not None:
        columns["key"] = pa.array(key, pa.binary())
    if partitions is None:
        columns["partition"] = pa.array([partition] * len(values), pa.int32())
        partitions = partition + 1
    plan = EncodePlan(topic=topic, partitions={topic: partitions})
    return list(encode(pa.table(columns), plan, now_ms=now_ms()))


def now_ms():
    """Return the present: a broker deletes rows that are older than its retention at any moment."""
    return int(time.time() * 1000)


def named(prefix, count):
    """Return values that tell themselves apart."""
    return [f"{prefix}-{number:06d}".encode() for number in range(count)]
