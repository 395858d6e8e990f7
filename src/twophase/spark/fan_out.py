"""`fan_out`: one query, several sinks, each exactly once."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from twophase.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Sink = Callable[["DataFrame", int], None]


def fan_out(*sinks: Sink) -> Sink:
    """Return a function for foreachBatch that hands each micro-batch to every sink, in order.

    Each sink knows by itself which batches it has: where one fails, the batch comes again, those
    before it skip it, and it is written to the rest. The rows are computed once and kept until all
    have them, so that every sink gets the same.
    """
    if not sinks:
        raise ConfigurationError("fan_out was given no sink; give it one or more")
    for sink in sinks:
        if not callable(sink):
            raise ConfigurationError(
                f"fan_out was given {type(sink).__name__}; allowed are sinks such as KafkaSink and "
                "TaskSink, and functions of a DataFrame and a batch number"
            )
    names = [name for sink in sinks if (name := getattr(sink, "sink_id", None)) is not None]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigurationError(
            f"fan_out was given two sinks with the sink_id {min(twice)!r}: each would take the "
            "other's batches for its own; give each an id of its own"
        )

    def write(frame: "DataFrame", batch_id: int) -> None:
        kept = frame.persist()
        try:
            for sink in sinks:
                sink(kept, batch_id)
        finally:
            kept.unpersist()

    return write
