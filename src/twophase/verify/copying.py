"""A copy of the beginning of a topic, row by row: what a verification reads does not grow."""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from twophase.kafka.counts import ask_partition_counts
from twophase.kafka.idempotent import ProducerIds
from twophase.kafka.options import KafkaOptions
from twophase.kafka.outlets import SureOutlet
from twophase.kafka.plan import plan_for
from twophase.kafka.records import encode
from twophase.kafka.wire import Wire
from twophase.verify.reader import read_all

_CHUNK_ROWS: Final = 10_000
_READ_S: Final = 300.0
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def copy_topic(options: KafkaOptions, topic: str, wire: Wire, target: str, rows_max: int) -> int:
    """Copy the first rows that a read_committed reader finds, and return how many.

    Partition, order, key, value, headers and timestamp stay; offsets do not.
    """
    plan = plan_for(wire.options, target, ask_partition_counts(wire, [target]))
    outlet = SureOutlet(lambda: wire, ProducerIds(wire).following)
    count = 0
    try:
        # Closed before its end too: a consumer's thread would keep the process from ending.
        with closing(read_all(options, topic, _READ_S)) as found:
            for rows in _chunks(islice(found, rows_max)):
                for block in encode(_table(rows), plan, now_ms=int(time.time() * 1000)):
                    outlet.send(block)
                count += len(rows)
        outlet.finish()
    finally:
        outlet.close()
    return count


def _chunks(rows: Iterator[Any]) -> Iterator[Sequence[Any]]:
    while chunk := list(islice(rows, _CHUNK_ROWS)):
        yield chunk


def _table(rows: Sequence[Any]) -> pa.Table:
    headers = [[{"key": key, "value": value} for key, value in row.headers or ()] for row in rows]
    return pa.table(
        {
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "partition": pa.array([row.partition for row in rows], pa.int32()),
            "timestamp": pa.array([max(0, row.timestamp) for row in rows], pa.timestamp("ms")),
            "headers": pa.array(headers, _HEADERS),
        }
    )
