"""Every key of a pipeline's file: what it may hold, its default, and what it means.

Checks, JSON schema and the tables of docs/pipelines.md follow from it. Keys of a sink are the
arguments of its class, and their values are read by the code that the class itself uses.
"""

import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

from twophase.commit.naming import check_name
from twophase.guarantee import Guarantee
from twophase.kafka.dead_letters import OnReject
from twophase.kafka.option_table import OPTIONS, PREFIX
from twophase.options import INT_MAX, LONG_MAX, TEXT, Kind, choice, integer
from twophase.pipeline.fields import Field, Free, ListOf, OneOf, Section, Text, TextList, Values
from twophase.pipeline.source_options import SHARED, SOURCE

FIRST_VIEW: Final = "source"
AVAILABLE_NOW, CONTINUOUSLY = "available-now", "as-fast-as-possible"
_VIEW: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_OBJECT: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_INTERVAL: Final = re.compile(
    r"[1-9][0-9]{0,8} ?(milliseconds?|ms|seconds?|s|minutes?|m|hours?|h|days?)"
)
_FORMATS: Final = ("json", "csv", "parquet", "orc", "text")


def _matching(pattern: re.Pattern[str], allowed: str) -> Text:
    def read(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError
        return text

    return Text(Kind(allowed, read))


def _word(*words: str) -> Text:
    return Text(choice({word: word for word in words}), {"enum": [*words]})


def _words_of(kind: type[StrEnum]) -> Text:
    return _word(*(member.value for member in kind))


def _number(low: int, high: int = INT_MAX) -> Text:
    return Text(integer(low, high), {"type": "integer", "minimum": low, "maximum": high})


def _checked(check: Callable[[str], Any], allowed: str) -> Text:
    def read(text: str) -> str:
        check(text)
        return text

    return Text(Kind(allowed, read))


def _offsets(text: str) -> str:
    if text.lower() in {"earliest", "latest"}:
        return text.lower()
    if not isinstance(json.loads(text), dict):
        raise ValueError  # noqa: TRY004 - as every kind says that a text is wrong
    return text


def _interval(text: str) -> str:
    if text in {AVAILABLE_NOW, CONTINUOUSLY}:
        return text
    found = _INTERVAL.fullmatch(text)
    if not found:
        raise ValueError
    units = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}
    count = re.match(r"[0-9]+", text)
    unit = found[1]
    return f"{count[0] if count else 1} {units.get(unit, unit)}"


TEXT_FIELD: Final = Text(TEXT)
_SINK_ID: Final = _checked(
    lambda text: check_name("sink_id", text), "1 to 100 letters, digits and _ . : + -"
)
_VIEW_NAME: Final = _matching(_VIEW, "a name of letters, digits and _")
_OBJECT_NAME: Final = _matching(_OBJECT, "module:name")
_VIEW_FIELD: Final = Field(
    "view", _VIEW_NAME, "the name by which steps see the source", default=FIRST_VIEW
)


_NAMES: Final = "names of kafka.* options and their values"
_SINK_OPTIONS: Final = Free(
    _NAMES, {PREFIX + name: option.meaning for name, option in OPTIONS.items()}
)
_SHARED_OPTIONS: Final = Free(_NAMES, SHARED)
_SOURCE_OPTIONS: Final = Free(
    "names of options of Spark's Kafka source and their values",
    {**SHARED, **{name: option.meaning for name, option in SOURCE.items()}},
)

KAFKA_SOURCE: Final = Section(
    (
        Field("topic", TEXT_FIELD, "the topic to read, or several separated by commas"),
        Field("topic_pattern", TEXT_FIELD, "instead of topic: a regular expression of Java"),
        Field(
            "starting_offsets",
            Text(Kind("earliest, latest, or JSON of topics, partitions and offsets", _offsets)),
            "where the first start begins; later ones go on from the checkpoint",
            default="earliest",
        ),
        Field(
            "max_rows_per_batch",
            _number(1, LONG_MAX),
            "the rate limit: a batch reads so many rows at most",
        ),
        Field(
            "isolation",
            _word("read_committed", "read_uncommitted"),
            "whether rows of transactions that are open or aborted are left out",
            default="read_committed",
        ),
        Field("options", _SOURCE_OPTIONS, "options of the source; they go before those of kafka"),
        _VIEW_FIELD,
    )
)
FILES_SOURCE: Final = Section(
    (
        Field("format", _word(*_FORMATS), "what the files hold", required=True),
        Field("path", TEXT_FIELD, "the folder to watch, or a glob", required=True, path=True),
        Field("schema", TEXT_FIELD, "the columns, as in CREATE TABLE; not needed for text"),
        Field("max_files_per_batch", _number(1), "the rate limit: a batch reads so many at most"),
        Field("options", Free("names of options and their values"), "options of Spark's reader"),
        _VIEW_FIELD,
    )
)
RATE_SOURCE: Final = Section(
    (
        Field("rows_per_second", _number(1), "rows that Spark makes up", default="1"),
        Field("partitions", _number(1, 100_000), "over how many tasks"),
        _VIEW_FIELD,
    )
)
STEP: Final = Section(
    (
        Field("sql", TEXT_FIELD, "a query on views that were made before"),
        Field("python", _OBJECT_NAME, "instead of sql: a function of a DataFrame that returns one"),
        Field("from", _VIEW_NAME, "the view that a function gets; by default the one before"),
        Field("view", _VIEW_NAME, "the name of what comes out; by default step1, step2, ..."),
    )
)
_OWN_SQL: Final = Field(
    "sql",
    TEXT_FIELD,
    "what this sink gets: a query on the last view, for each batch; by default all of its rows",
)
_SINK_ID_FIELD: Final = Field(
    "sink_id", _SINK_ID, "the sink's name for ever; no other query may have it", required=True
)
_DECISIONS: Final = Field(
    "decisions", TEXT_FIELD, "task scope: a folder for the decision log", path=True
)
_ON_LOST: Final = Field(
    "on_lost",
    _word("fail", "record"),
    "task scope: what to do where the store has dropped rows that were decided on",
    default="fail",
)
KAFKA_SINK: Final = Section(
    (
        _SINK_ID_FIELD,
        Field("topic", TEXT_FIELD, "where the rows go; without it the column topic says"),
        Field("marker_topic", TEXT_FIELD, "without topic: the one that holds the sink's marker"),
        Field("options", _SINK_OPTIONS, "options of the sink; they go before those of kafka"),
        Field("source_group", TEXT_FIELD, "a group to which the offsets read are committed"),
        Field(
            "path", _word("auto", "driver", "routed", "local"), "the way of a batch", default="auto"
        ),
        Field("scope", _word("batch", "task"), "one transaction for what", default="batch"),
        _DECISIONS,
        _ON_LOST,
        Field("pool_size", _number(1), "task scope: bounds the attempts of one batch"),
        Field(
            "on_reject",
            _words_of(OnReject),
            "what to do with a row that no retry can write",
            default=OnReject.FAIL.value,
        ),
        Field("dead_letter_topic", TEXT_FIELD, "with dead-letter: the topic for such rows"),
        _OWN_SQL,
    )
)
POSTGRES_SINK: Final = Section(
    (
        _SINK_ID_FIELD,
        Field("url", TEXT_FIELD, "postgresql://user:${env:PASSWORD}@host/name", required=True),
        Field("table", TEXT_FIELD, "name or schema.name", required=True),
        Field("key", TextList(), "columns by which a row replaces another"),
        _OWN_SQL,
    )
)
PYTHON_SINK: Final = Section(
    (
        Field(
            "name",
            _OBJECT_NAME,
            "a class or function that returns the sink: a TwoPhaseCommitSink, or a function of a "
            "DataFrame and a batch number",
            required=True,
        ),
        Field("arguments", Values(), "what it is called with"),
        _SINK_ID_FIELD,
        _DECISIONS,
        _ON_LOST,
        _OWN_SQL,
    )
)
METRICS: Final = Section(
    (
        Field("port", _number(1, 65_535), "served at http://address:port/metrics", required=True),
        Field("address", TEXT_FIELD, "whoever reaches it can read them", default="127.0.0.1"),
    )
)
SPARK: Final = Section(
    (
        Field(
            "master", TEXT_FIELD, "where Spark runs; --master goes before it", default="local[*]"
        ),
        Field("conf", Free("names of Spark's settings and their values"), "settings of Spark"),
    )
)
PIPELINE: Final = Section(
    (
        Field("name", TEXT_FIELD, "what Spark calls the query; by default the file's name"),
        Field("kafka", _SHARED_OPTIONS, "kafka.* options of source and sinks alike"),
        Field(
            "source",
            OneOf({"kafka": KAFKA_SOURCE, "files": FILES_SOURCE, "rate": RATE_SOURCE}),
            "where the rows come from",
            required=True,
        ),
        Field("steps", ListOf(STEP), "what becomes of them, one after the other"),
        Field(
            "sinks",
            ListOf(
                OneOf({"kafka": KAFKA_SINK, "postgres": POSTGRES_SINK, "python": PYTHON_SINK}), 1
            ),
            "where they go: each batch to all of them",
            required=True,
        ),
        Field("checkpoint", TEXT_FIELD, "a folder that stays", required=True, path=True),
        Field(
            "trigger",
            Text(Kind(f"{AVAILABLE_NOW}, {CONTINUOUSLY}, or a time such as 10 seconds", _interval)),
            "when a batch begins",
            default=CONTINUOUSLY,
        ),
        Field(
            "output_mode",
            _word("append", "update", "complete"),
            "which rows of an aggregation a batch has",
            default="append",
        ),
        Field(
            "guarantee",
            _words_of(Guarantee),
            "what Kafka sinks promise; PostgreSQL is always exactly-once",
            default=Guarantee.EXACTLY_ONCE.value,
        ),
        Field(
            "restarts",
            _number(0, 1_000),
            "how often in a row, without a batch in between, a query that fails is started again",
            default="3",
        ),
        Field("metrics", METRICS, "where Prometheus finds the sinks' metrics; without it nowhere"),
        Field("spark", SPARK, "where and how Spark runs"),
    )
)
