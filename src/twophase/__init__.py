"""Exactly-once sinks for PySpark by two-phase commit."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twophase.spark.kafka_sink import KafkaSink
    from twophase.spark.session import configure_spark

__all__ = ["KafkaSink", "configure_spark"]

_HOMES = {
    "KafkaSink": "twophase.spark.kafka_sink",
    "configure_spark": "twophase.spark.session",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for: an executor should not pay for all."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
