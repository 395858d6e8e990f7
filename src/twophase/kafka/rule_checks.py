"""Rows that their topic's own settings refuse, found before a broker has to say so."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from twophase.kafka.columns import Bools, Longs, Rows
from twophase.kafka.faults import Fault, Reason
from twophase.kafka.plan import EncodePlan
from twophase.kafka.row_checks import preview
from twophase.kafka.topic_rules import TopicRule
from twophase.kafka.topics import Topics
from twophase.options import LONG_MAX


def rule_faults(rows: Rows, topics: Topics, plan: EncodePlan, now_ms: int) -> Iterator[Fault]:
    """Yield which rows have a timestamp that their topic does not take, or lack the key it needs.

    What is too large for its topic shows only when it is compressed.
    """
    for code, name in enumerate(topics.names):
        rule = plan.rule(name)
        mine = (
            np.full(len(rows), fill_value=True)
            if isinstance(topics.codes, int)
            else (topics.codes == code)
        )
        if rule.key_needed:
            yield from _key_faults(rows, mine, name)
        if rows.timestamps is not None:
            times = rows.timestamps_or(now_ms)
            if times is not None:
                yield from _time_faults(times, mine, rule, name, now_ms)


def _key_faults(rows: Rows, mine: Bools, topic: str) -> Iterator[Fault]:
    wrong = mine if rows.key_lengths is None else mine & (rows.key_lengths < 0)
    if wrong.any():
        text = f"key is null, and topic {topic!r} is compacted, which takes no row without one"
        yield Fault(Reason.KEY, "key", wrong, lambda _: (text, {}))


def _time_faults(
    times: Longs, mine: Bools, rule: TopicRule, topic: str, now_ms: int
) -> Iterator[Fault]:
    earliest = 0 if rule.before_ms is None else max(0, now_ms - rule.before_ms)
    latest = LONG_MAX if rule.after_ms is None else min(LONG_MAX, now_ms + rule.after_ms)
    wrong = mine & ((times < earliest) | (times > latest))
    if not wrong.any():
        return

    def tell(row: int) -> tuple[str, dict[str, int]]:
        text = (
            f"timestamp is {times[row]} ms; topic {topic!r} takes {earliest} to {latest} now, by "
            "its message.timestamp.before.max.ms and after.max.ms"
        )
        return text, {}

    yield Fault(Reason.TIMESTAMP, "timestamp", wrong, tell)


def tell_large(row: pa.RecordBatch, topic: str, size_bytes: int, limit: int) -> str:
    """Return the sentence about a row that is alone in its block, and too large for its topic."""
    key = row.column("key") if "key" in row.schema.names else None
    return (
        f"the record with key {preview(key, 0)} takes {size_bytes} bytes as it is sent; topic "
        f"{topic!r} takes {limit}, by its max.message.bytes and segment.bytes"
    )
