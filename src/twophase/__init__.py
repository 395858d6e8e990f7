"""Exactly-once sinks for PySpark by two-phase commit."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twophase.spark.session import configure_spark

__all__ = ["configure_spark"]


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for: an executor should not pay for all."""
    if name == "configure_spark":
        from twophase.spark.session import configure_spark  # noqa: PLC0415

        return configure_spark
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
