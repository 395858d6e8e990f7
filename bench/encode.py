"""Rows per second of encoding, beside confluent-kafka's produce() loop in the same run.

Both run on one core, turn by turn, and both are given their rows ready-made: ours as an Arrow
batch, the peer as lists of bytes. Ours ends with finished record batches, checksums included; the
peer's loop ends when the last row is in its queue, while its own thread is already sending. That
thread compresses, so with a codec the peer's time ends with flush().
"""

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from confluent_kafka.admin import AdminClient, NewTopic

from bench.peer import produce
from bench.report import Figure
from bench.rows import UNIT, Rows, Shape
from twophase.kafka.blocks import stamp
from twophase.kafka.compression import Codec
from twophase.kafka.plan import EncodePlan
from twophase.kafka.records import encode

MUST, AIM = 4.0, 5.0


def encode_run(shape: Shape, rows: Rows) -> float:
    """Encode and stamp all rows once; return rows per second."""
    plan = EncodePlan({"t": shape.partitions}, topic="t", codec=shape.codec)
    start = time.perf_counter()
    for block in encode(rows.batch, plan, now_ms=1_700_000_000_000):
        stamp(block, 1, 0, 0, transactional=True)
    return rows.count / (time.perf_counter() - start)


def shapes() -> list[Shape]:
    """List what is measured: the one with a bar to reach first."""
    usual = Shape()
    sizes = [
        Shape(size, keys=keys, headers=headers)
        for size in (10, 100, 1000)
        for keys, headers in ((False, False), (True, False), (True, True))
    ]
    codecs = [Shape(codec=codec) for codec in Codec]
    spread = [Shape(partitions=partitions) for partitions in (1, 4, 64, 200)]
    return list(dict.fromkeys([usual, *sizes, *codecs, *spread]))


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process on one core, and the collector of garbage out of the measured time."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        os.sched_setaffinity(0, before)


def measure(servers: str, count: int, runs: int) -> Iterator[Figure]:
    """Measure every shape, both sides turn by turn."""
    admin = AdminClient({"bootstrap.servers": servers})
    for shape in shapes():
        topic = f"bench-{uuid4().hex[:8]}"
        admin.create_topics([NewTopic(topic, shape.partitions)])[topic].result(30)
        rows = Rows(shape, count)
        # Its own thread compresses, so with a codec the peer's time ends with flush().
        flushed = shape.codec is not Codec.NONE
        ours, theirs = [], []
        with one_core():
            encode_run(shape, rows)
            for _ in range(runs):
                ours.append(encode_run(shape, rows))
                theirs.append(rows.count / produce(servers, topic, shape, rows, {})[flushed])
        admin.delete_topics([topic])[topic].result(30)
        bar = {"must": MUST, "aim": AIM} if shape == Shape() else {}
        peer = "produce()+flush()" if flushed else "produce()"
        yield Figure(f"encode {shape}", UNIT, tuple(ours), peer, tuple(theirs), **bar)
