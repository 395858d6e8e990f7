"""The columns of a DataFrame that a Kafka sink takes: checked by type before anything runs."""

from typing import TYPE_CHECKING, Final

from twophase.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

_TEXT_OR_BYTES: Final = ("string", "binary")
_HEADERS: Final = "array<struct<key:string,value:binary>>"
# What Spark's own Kafka sink takes, and `timestamp`, which it cannot write.
_ALLOWED: Final = {
    "key": _TEXT_OR_BYTES,
    "value": _TEXT_OR_BYTES,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (_HEADERS,),
    "timestamp": ("timestamp", "timestamp_ntz"),
}


_SIZED: Final = ("key", "value", "topic")


def byte_sizes(names: "Iterable[str]") -> dict[str, str]:
    """Return for each column of any size the expression of its bytes, 0 for a null."""
    return {name: f"coalesce(octet_length(`{name}`), 0)" for name in names if name in _SIZED}


def sink_columns(frame: "DataFrame", topic: str | None) -> "DataFrame":
    """Return the frame with the sink's columns only, or refuse it by column, type and allowed."""
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    if "value" not in types:
        raise ConfigurationError(
            f"the column value is missing; the DataFrame has {', '.join(types) or 'no columns'}"
        )
    if topic is None and "topic" not in types:
        raise ConfigurationError(
            "there is no topic: give the sink topic=..., or the DataFrame a column topic"
        )
    for name, found in types.items():
        if name not in _ALLOWED:
            raise ConfigurationError(
                f"the column {name} is none of a Kafka record's; allowed are {', '.join(_ALLOWED)}"
            )
        if found not in _ALLOWED[name]:
            raise ConfigurationError(
                f"the column {name} is of type {found}; allowed is {' or '.join(_ALLOWED[name])}"
            )
    # The sink's topic wins over the column, as in Spark's own sink.
    names = [name for name in _ALLOWED if name in types and (name != "topic" or topic is None)]
    # Every step of a plan takes time to analyse, which a small batch would notice.
    return frame if len(names) == len(types) else frame.select(*names)
