"""The source of a file, as Spark's reader is told of it."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final

from twophase.errors import ConfigurationError
from twophase.kafka.code_options import refuse_code
from twophase.kafka.option_table import PREFIX
from twophase.kafka.options import KafkaOptions
from twophase.options import MASK
from twophase.pipeline.filling import fill_kafka, fill_options
from twophase.pipeline.mistakes import Where, said_of
from twophase.pipeline.model import Source
from twophase.pipeline.reach import reach_kafka
from twophase.pipeline.reading import Reader
from twophase.pipeline.shared import Shared, once, unknown_option
from twophase.pipeline.sinks import checked
from twophase.pipeline.source_options import SHARED, SOURCE

_WHERE: Final = ("source",)
_SERVERS: Final = PREFIX + "bootstrap.servers"
# One way for each thing: these have keys.
_HAVE_KEYS: Final[Mapping[str, str]] = {
    "subscribe": "topic",
    "subscribepattern": "topic_pattern",
    "startingoffsets": "starting_offsets",
    "maxoffsetspertrigger": "max_rows_per_batch",
    "kafka.isolation.level": "isolation",
}
_BY_LOWER: Final = {name.lower(): name for name in (*SHARED, *SOURCE)}


def read_source(
    reader: Reader, found: tuple[str, Mapping[str, Any]], shared: Shared
) -> Source | None:
    """Return the source; None, with the mistakes noted, where it is wrong."""
    kind, given = found
    if kind == "kafka":
        return _kafka(reader, given, shared)
    return _files(reader, given) if kind == "files" else _rate(given)


def _kafka(reader: Reader, given: Mapping[str, Any], shared: Shared) -> Source | None:
    where = (*_WHERE, "kafka")
    topic, pattern = given["topic"], given["topic_pattern"]
    before = len(reader.mistakes.found)
    wrong = {(*where, name) for name in ("topic", "topic_pattern")} & set(reader.mistakes.places)
    if topic is None and pattern is None and not wrong:
        reader.mistakes.add(where, "source.kafka.topic is missing; write topic or topic_pattern")
    if topic is not None and pattern is not None:
        reader.mistakes.add(
            (*where, "topic_pattern"), "topic_pattern is beside topic; keep one of them"
        )
    own = _own_options(reader, given["options"] or {}, (*where, "options"))
    options = {**shared.options, **own}
    absent = {*shared.absent, *(set(given["options"] or {}) - set(own))}
    _check_connection(reader, options, own, absent, where)
    if len(reader.mistakes.found) > before:
        return None
    subscribed = {"subscribe": topic} if pattern is None else {"subscribePattern": pattern}
    limit = given["max_rows_per_batch"]
    limited = {} if limit is None else {"maxOffsetsPerTrigger": str(limit)}
    return Source(
        kind="kafka",
        view=given["view"],
        format="kafka",
        options={
            **options,
            **subscribed,
            "startingOffsets": given["starting_offsets"],
            PREFIX + "isolation.level": given["isolation"],
            **limited,
        },
        reach=partial(
            reach_kafka,
            {name: text for name, text in options.items() if name in SHARED},
            [] if topic is None else [name.strip() for name in topic.split(",")],
            to_read=True,
        ),
        shown={
            "topic" if pattern is None else "topic_pattern": str(topic or pattern),
            "servers": MASK if _hidden_servers(reader, own) else options[_SERVERS],
            "starting_offsets": given["starting_offsets"],
            "isolation": given["isolation"],
            **({} if limit is None else {"max_rows_per_batch": str(limit)}),
        },
    )


def _hidden_servers(reader: Reader, own: Mapping[str, str]) -> bool:
    at: Where = (*_WHERE, "kafka", "options", _SERVERS) if _SERVERS in own else ("kafka", _SERVERS)
    return at in reader.hidden


def _own_options(reader: Reader, given: Mapping[str, str], where: Where) -> dict[str, str]:
    """Return the options of the source by the names that Spark has for them."""
    good = {}
    for name, value in once(reader, given, where).items():
        key = name.strip().lower()
        if key in _HAVE_KEYS:
            said = f"{name} has a key of its own: write {_HAVE_KEYS[key]} beside options"
            reader.mistakes.add((*where, name), said)
        elif key not in _BY_LOWER:
            reader.mistakes.add((*where, name), unknown_option(name, _BY_LOWER.values()))
        else:
            good[name] = value
    filled = fill_kafka(reader, good, where)
    found = {}
    for name, text in filled.items():
        right = _BY_LOWER[name.strip().lower()]
        found[right] = text
        if right in SOURCE:
            try:
                SOURCE[right].parse(right, text)
            except ConfigurationError as error:
                reader.mistakes.add((*where, name), said_of(error))
    return found


def _check_connection(
    reader: Reader,
    options: Mapping[str, str],
    own: Mapping[str, str],
    absent: Collection[str],
    where: Where,
) -> None:
    """Let the code of the sinks say what is wrong with the connection, which is the same."""

    def place(name: str) -> Where:
        return (*where, "options", name) if name in own else ("kafka", name)

    connection = {name: text for name, text in options.items() if name in SHARED}
    checked(
        _connection,
        {"options": connection},
        where,
        reader.mistakes,
        absent=absent,
        place=place,
    )


def _connection(options: Mapping[str, str]) -> KafkaOptions:
    """Read them as the sinks do, and refuse what only a Java client would act on."""
    refuse_code(options)
    return KafkaOptions.parse(options)


def _files(reader: Reader, given: Mapping[str, Any]) -> Source | None:
    where = (*_WHERE, "files")
    if given["format"] not in {None, "text"} and (*where, "schema") not in reader.mistakes.places:
        reader.mistakes.add(
            where,
            "source.files.schema is missing; write the columns, such as: id bigint, name string",
        )
    options = fill_options(reader, given["options"] or {}, (*where, "options"))
    if given["format"] is None or given["path"] is None:
        return None
    limit = given["max_files_per_batch"]
    limited = {} if limit is None else {"maxFilesPerTrigger": str(limit)}
    schema = {} if given["schema"] is None else {"schema": given["schema"]}
    return Source(
        kind="files",
        view=given["view"],
        format=given["format"],
        options={**options, **limited},
        schema=given["schema"],
        path=given["path"],
        shown={"format": given["format"], "path": given["path"], **schema},
    )


def _rate(given: Mapping[str, Any]) -> Source:
    options = {"rowsPerSecond": str(given["rows_per_second"])}
    if given["partitions"] is not None:
        options["numPartitions"] = str(given["partitions"])
    shown = {"rows_per_second": options["rowsPerSecond"]}
    return Source(kind="rate", view=given["view"], format="rate", options=options, shown=shown)
