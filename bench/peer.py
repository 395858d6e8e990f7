"""The peer: confluent-kafka: a produce() call per row, as its users write it, then flush()."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Producer

from bench.rows import HEADERS, Rows, Shape


def produce(
    servers: str, topic: str, shape: Shape, rows: Rows, settings: Mapping[str, object]
) -> tuple[float, float]:
    """Produce and flush all rows, connection and leaders known; return both times in seconds."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "compression.type": shape.codec.name.lower(),
            "queue.buffering.max.messages": rows.count + 1,
            "queue.buffering.max.kbytes": 2**21 - 1,
            **settings,
        }
    )
    producer.produce(topic, b"first")
    producer.flush()
    loop = _loop(producer.produce, shape, rows, topic)
    start = time.perf_counter()
    loop()
    looped_s = time.perf_counter() - start
    left = producer.flush()
    flushed_s = time.perf_counter() - start
    if left:
        raise SystemExit(f"{left} of {rows.count} rows were not delivered")
    return looped_s, flushed_s


def _loop(produce: Any, shape: Shape, rows: Rows, topic: str) -> Callable[[], None]:
    def with_headers() -> None:
        for key, value in zip(rows.keys, rows.values, strict=True):
            produce(topic, value, key, headers=HEADERS)

    def with_keys() -> None:
        for key, value in zip(rows.keys, rows.values, strict=True):
            produce(topic, value, key)

    def plain() -> None:
        for value in rows.values:
            produce(topic, value)

    if shape.headers:
        return with_headers
    return with_keys if shape.keys else plain
