"""A pipeline as a verification runs it: the same steps, between topics of the verification's own.

Nothing of the user's is written: another topic, sink id, checkpoint and marker, no source group.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NoReturn

from twophase.errors import ConfigurationError
from twophase.kafka.option_table import PREFIX
from twophase.pipeline.model import Pipeline
from twophase.pipeline.sinks import kafka_sink, maker
from twophase.pipeline.source_options import SHARED
from twophase.pipeline.table import CONTINUOUSLY

_SERVERS: Final = PREFIX + "bootstrap.servers"
# No other setting of a sink: they name topics, groups and folders of the user's.
_TAKEN: Final = ("options", "guarantee", "path", "scope", "on_lost", "pool_size")
# Of the source's own options those that say how rows are read, and none that says which.
_READING: Final = (
    "includeHeaders",
    PREFIX + "isolation.level",
    PREFIX + "fetch.max.bytes",
    PREFIX + "fetch.max.wait.ms",
    PREFIX + "fetch.min.bytes",
    PREFIX + "max.partition.fetch.bytes",
    PREFIX + "max.poll.records",
)
_DEAD_LETTERS: Final = "dead_letter_topic"


@dataclass(frozen=True, slots=True, repr=False)
class Verifiable:
    """What a verification needs to know of a pipeline; the options may hold secrets."""

    topic: str
    target: str | None
    source_options: Mapping[str, str]
    sink_options: Mapping[str, str]


def verifiable(pipeline: Pipeline) -> Verifiable:
    """Return what is needed, or refuse a pipeline that cannot be verified."""
    source, sinks = pipeline.source, pipeline.sinks
    topic = source.options.get("subscribe", "").strip()
    if source.kind != "kafka" or not topic or "," in topic:
        _refuse(pipeline, f"its source is {source.kind} {topic}", "a source of one Kafka topic")
    if [sink.kind for sink in sinks] != ["kafka"]:
        found = ", ".join(sink.kind for sink in sinks)
        _refuse(pipeline, f"its sinks are {found}", "one Kafka sink and no other")
    settings = _settings(pipeline)
    if settings.get(_DEAD_LETTERS):
        _refuse(pipeline, f"its sink has a {_DEAD_LETTERS}", "a sink without dead letters")
    options = {name.strip().lower(): text for name, text in settings["options"].items()}
    connection = {name: text for name, text in source.options.items() if name in SHARED}
    if connection[_SERVERS] != options[_SERVERS]:
        _refuse(pipeline, "its source and sink are on two clusters", "one cluster")
    return Verifiable(topic, sinks[0].topic, connection, options)


def redirected(
    pipeline: Pipeline,
    *,
    source: str,
    target: str,
    sink_id: str,
    checkpoint: str,
    rows_per_batch: int,
) -> Pipeline:
    """Return the pipeline between other topics, under another sink id, with another checkpoint."""
    settings = {k: v for k, v in _settings(pipeline).items() if k in _TAKEN}
    make = maker(kafka_sink, {**settings, "sink_id": sink_id, "topic": target})
    given = pipeline.source.options
    options = {
        **{name: text for name, text in given.items() if name in SHARED or name in _READING},
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(rows_per_batch),
    }
    part = replace(pipeline.sinks[0], sink_id=sink_id, topic=target, make=make, reach=lambda: None)
    return replace(
        pipeline,
        source=replace(pipeline.source, options=options, reach=lambda: None),
        sinks=(part,),
        checkpoint=checkpoint,
        trigger=CONTINUOUSLY,
        # Whoever verifies starts it again.
        restarts=0,
    )


def _settings(pipeline: Pipeline) -> dict[str, Any]:
    make = pipeline.sinks[0].make
    return dict(make.keywords) if isinstance(make, partial) else {}


def _refuse(pipeline: Pipeline, found: str, allowed: str) -> NoReturn:
    raise ConfigurationError(
        f"{pipeline.file} cannot be verified: {found}; allowed is a pipeline with {allowed}"
    )
