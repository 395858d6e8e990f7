"""Exactly-once sinks for PySpark by two-phase commit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twophase.errors import CommittableLost
    from twophase.spark.fan_out import fan_out
    from twophase.spark.kafka_sink import KafkaSink
    from twophase.spark.postgres_sink import PostgresSink
    from twophase.spark.session import configure_spark
    from twophase.spark.task_sink import TaskSink
    from twophase.two_phase import TwoPhaseCommitSink

__all__ = [
    "CommittableLost",
    "KafkaSink",
    "PostgresSink",
    "TaskSink",
    "TwoPhaseCommitSink",
    "configure_spark",
    "fan_out",
]

_HOMES = {
    "CommittableLost": "twophase.errors",
    "KafkaSink": "twophase.spark.kafka_sink",
    "PostgresSink": "twophase.spark.postgres_sink",
    "TaskSink": "twophase.spark.task_sink",
    "TwoPhaseCommitSink": "twophase.two_phase",
    "configure_spark": "twophase.spark.session",
    "fan_out": "twophase.spark.fan_out",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: an executor should not pay for all."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
