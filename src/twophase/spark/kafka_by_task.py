"""`KafkaSink` in task scope: the same face over `TaskSink` and `KafkaTaskSink`."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from twophase.errors import ConfigurationError
from twophase.guarantee import Guarantee
from twophase.kafka.options import KafkaOptions
from twophase.kafka.task_sink import DEFAULTS, POOL_SIZE, KafkaTaskSink
from twophase.observe import BatchRecord, Hook
from twophase.options import one_of
from twophase.spark.columns import sink_columns
from twophase.spark.path import Path
from twophase.spark.task_sink import TaskSink
from twophase.task_scope import OnLost

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Scope(StrEnum):
    """How many transactions a batch is written in: one, or one for each task."""

    BATCH = "batch"
    TASK = "task"

    @classmethod
    def parse(cls, value: object) -> "Scope":
        """Read the user's choice."""
        return one_of(cls, "scope", value)


class KafkaByTask(TaskSink):
    """Takes the columns of a Kafka record only."""

    def __init__(self, sink: KafkaTaskSink, topic: str | None, **settings: object) -> None:
        self._topic = topic
        super().__init__(sink, **settings)  # type: ignore[arg-type]

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Write one micro-batch."""
        super().__call__(sink_columns(frame, self._topic), batch_id)

    def write(self, frame: "DataFrame", *, run_id: str) -> BatchRecord:
        """Write a batch job's DataFrame, once for each `run_id`."""
        return super().write(sink_columns(frame, self._topic), run_id=run_id)


def check_batch_scope(decisions: str | None, on_lost: str, pool_size: int) -> None:
    """Refuse settings of task scope where they mean nothing."""
    given = {"decisions": decisions is not None, "on_lost": on_lost != OnLost.FAIL}
    given["pool_size"] = pool_size != POOL_SIZE
    for name, wrong in given.items():
        if wrong:
            raise ConfigurationError(
                f'{name} is given with scope="batch"; it is a setting of scope="task" only'
            )


def check_task_scope(guarantee: Guarantee, source_group: str | None, path: Path) -> None:
    """Refuse settings of batch scope where they mean nothing."""
    if guarantee is not Guarantee.EXACTLY_ONCE:
        raise ConfigurationError(
            f'guarantee is {guarantee.value!r} with scope="task"; allowed is exactly-once: without '
            "a transaction every task sends for itself in any scope; leave scope out"
        )
    if source_group is not None:
        raise ConfigurationError(
            f'source_group is {source_group!r} with scope="task"; offsets go into the one '
            "transaction of batch scope only; leave source_group out, or scope"
        )
    if path is not Path.AUTO:
        raise ConfigurationError(
            f'path is {path.value!r} with scope="task", in which every task sends its own rows; '
            "leave path out, or scope"
        )


def task_defaults(options: Mapping[str, object]) -> dict[str, str]:
    """Return what task scope sets unless the user does: Kafka's longest default timeout."""
    given = {str(name).strip().lower() for name in options}
    return {name: text for name, text in DEFAULTS.items() if name not in given}


def kafka_by_task(
    options: KafkaOptions,
    *,
    topic: str | None,
    marker_topic: str,
    pool_size: int,
    dead_letter_topic: str | None,
    hooks: Iterable[Hook],
    **settings: object,
) -> KafkaByTask:
    """Return the sink; its options are `task_defaults` and the user's."""
    sink = KafkaTaskSink(options, topic, marker_topic, pool_size, dead_letter_topic)
    return KafkaByTask(sink, topic, hooks=hooks, **settings)
