"""Which topic each row goes to, as small numbers."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twophase.errors import RowRejected
from twophase.kafka.columns import Longs, as_bytes, with_offsets
from twophase.kafka.counts import PartitionCounts
from twophase.kafka.dead_letters import TOPIC_NAMES, DeadLetters, is_topic_name
from twophase.kafka.faults import Fault, Reason
from twophase.kafka.plan import EncodePlan

_NULL: Final = -1
_SHOWN_CHARS_MAX: Final = 80


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics in the order of their names; `codes` and `counts` per row, or one for all rows."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    codes: Longs | int

    def counts(self, rows: slice = slice(None)) -> Longs | int:
        """How many partitions the topic of each of these rows has."""
        if isinstance(self.codes, int):
            return self.sizes[self.codes]
        return np.array(self.sizes, np.int64)[self.codes[rows]]


def topics_of(batch: pa.RecordBatch, plan: EncodePlan, first: int = 0) -> Topics:
    """Code the topic of every row; refuse a missing or unknown one by row, from `first` on."""
    if plan.topic is not None:
        return Topics((plan.topic,), (plan.partitions[plan.topic],), 0)
    topic = batch.column("topic")
    if topic.null_count:
        raise RowRejected(
            "topic is null, and no topic is set for the sink",
            row=first + pc.index(topic.is_null(), pa.scalar(value=True)).as_py(),
            column="topic",
        )
    if not pa.types.is_dictionary(topic.type):
        topic = with_offsets(topic).dictionary_encode()
    indices = topic.indices.to_numpy()
    # A dictionary may have entries that no row uses, which need not be known topics.
    used = np.unique(indices)
    names = [_text(topic.dictionary[int(index)].as_py()) for index in used]
    for index, name in zip(used, names, strict=True):
        if name not in plan.partitions:
            raise RowRejected(
                f"topic {name!r} has no known number of partitions",
                row=first + int(np.argmax(indices == index)),
                column="topic",
            )
    ordered = sorted(set(names))
    code = np.zeros(len(topic.dictionary), np.int64)
    code[used] = [ordered.index(name) for name in names]
    sizes = tuple(plan.partitions[name] for name in ordered)
    return Topics(tuple(ordered), sizes, code[indices])


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def topic_faults(batch: pa.RecordBatch, plan: EncodePlan, dead: DeadLetters) -> Iterator[Fault]:
    """Yield which rows name no topic that they can be written to, and why."""
    if plan.topic is not None:
        return
    topic = as_bytes(batch.column("topic")).dictionary_encode()
    codes = topic.indices.fill_null(_NULL).to_numpy()
    names = [_text(name) for name in topic.dictionary.to_pylist()]
    if isinstance(plan.partitions, PartitionCounts):
        plan.partitions.learn(name for name in names if is_topic_name(name))
    wrong: dict[Reason, list[int]] = defaultdict(list)
    if topic.null_count:
        wrong[Reason.TOPIC_NULL].append(_NULL)
    for code, name in enumerate(names):
        if not is_topic_name(name):
            wrong[Reason.TOPIC_INVALID].append(code)
        elif name == dead.topic:
            wrong[Reason.TOPIC_OF_DEAD_LETTERS].append(code)
        elif name not in plan.partitions:
            wrong[Reason.TOPIC_UNKNOWN].append(code)
    for reason, found in wrong.items():

        def tell(row: int, reason: Reason = reason) -> tuple[str, dict[str, int]]:
            name = "" if codes[row] == _NULL else names[codes[row]]
            cut = name if len(name) <= _SHOWN_CHARS_MAX else name[:_SHOWN_CHARS_MAX] + "…"
            return _SENTENCES[reason].format(repr(cut)), {}

        yield Fault(reason, "topic", np.isin(codes, found), tell)


_SENTENCES: Final = {
    Reason.TOPIC_NULL: "topic is null, and no topic is set for the sink",
    Reason.TOPIC_INVALID: f"topic {{}} is not a valid topic name; allowed are {TOPIC_NAMES}",
    Reason.TOPIC_UNKNOWN: "topic {} does not exist on this cluster",
    Reason.TOPIC_OF_DEAD_LETTERS: "topic {} is this sink's own dead-letter topic",
}
