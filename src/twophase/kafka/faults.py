"""Why a row cannot be written, whoever tries again: the reasons, and the rows that have one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np

from twophase.errors import RowRejected
from twophase.kafka.columns import Bools

# The sentence about a row of the given number, and the numbers that an error carries beside it.
Tell: TypeAlias = Callable[[int], tuple[str, Mapping[str, int]]]


class Reason(StrEnum):
    """What is wrong with a row, as its dead letter says it; the names are for ever."""

    TOPIC_NULL = "topic-null"
    TOPIC_INVALID = "topic-invalid"
    TOPIC_UNKNOWN = "topic-unknown"
    TOPIC_OF_DEAD_LETTERS = "topic-of-dead-letters"
    PARTITION = "partition-out-of-range"
    TIMESTAMP = "timestamp-not-allowed"
    HEADER = "header-without-key"
    KEY = "key-missing"
    SIZE = "too-large"


@dataclass(frozen=True, slots=True)
class Fault:
    """The rows that one check refuses, and how to say why."""

    reason: Reason
    column: str
    wrong: Bools
    tell: Tell

    def rejected(self, first: int) -> RowRejected:
        """Return the error for the first of them, where rows are numbered from `first` on."""
        row = int(np.argmax(self.wrong))
        sentence, numbers = self.tell(row)
        return RowRejected(sentence, row=first + row, column=self.column, **numbers)
