"""Which topic each row goes to, as small numbers."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twophase.errors import RowRejected
from twophase.kafka.columns import Longs, with_offsets
from twophase.kafka.plan import EncodePlan


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
