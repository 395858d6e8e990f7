"""Views of a streaming query from the texts of a pipeline, checked by Spark before it starts."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from twophase.errors import ConfigurationError
from twophase.spark.columns import sink_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AT: Final = re.compile(r"[;,]? ?\(?line (?P<line>\d+),? pos (?P<at>\d+)\)?;?")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+")


class SparkRefuses(Exception):
    """Spark cannot do what a text asks for: its sentence, and where in the text, from 0."""

    def __init__(self, said: str, line: int | None = None, at: int | None = None) -> None:
        super().__init__(said)
        self.said, self.line, self.at = said, line, at


def source_view(
    session: "SparkSession",
    view: str,
    *,
    kind: str,
    options: Mapping[str, str],
    schema: str | None,
    path: str | None,
) -> "DataFrame":
    """Make the view of a source and return it."""
    reader = session.readStream.format(kind).options(**options)
    frame: DataFrame = _asked(lambda: (reader.schema(schema) if schema else reader).load(path))
    frame.createOrReplaceTempView(view)
    return frame


def sql_view(session: "SparkSession", view: str, text: str) -> "DataFrame":
    """Make a view of a query's rows and return it."""
    check_is_query(session, text)
    frame: DataFrame = _asked(lambda: session.sql(text))
    frame.createOrReplaceTempView(view)
    return frame


def check_is_query(session: "SparkSession", text: str) -> None:
    """Refuse what is no query: Spark would carry out a command on the spot."""
    parser = session._jsparkSession.sessionState().sqlParser()  # noqa: SLF001
    _asked(lambda: parser.parseQuery(text))


def python_view(
    session: "SparkSession", view: str, function: Callable[..., Any], source: str
) -> "DataFrame":
    """Make a view of what a function returns and return it."""
    from pyspark.sql import DataFrame  # noqa: PLC0415

    try:
        frame = function(session.table(source))
    except (Exception, SystemExit) as error:
        raise SparkRefuses(f"it raised {type(error).__name__}: {_first(error)}") from error
    if not isinstance(frame, DataFrame):
        raise SparkRefuses(f"it returned {type(frame).__name__}; allowed is a DataFrame")
    frame.createOrReplaceTempView(view)
    return frame


def check_own_sql(frame: "DataFrame", view: str, text: str) -> "DataFrame":
    """Return the rows that a sink's own query has, from a session where nothing else is."""
    session = frame.sparkSession.newSession()
    session.createDataFrame([], frame.schema).createOrReplaceTempView(view)
    check_is_query(session, text)
    found: DataFrame = _asked(lambda: session.sql(text))
    return found


def check_kafka_columns(frame: "DataFrame", topic: str | None) -> None:
    """Refuse rows that are no Kafka records, by the check of the sink itself."""
    try:
        sink_columns(frame, topic)
    except ConfigurationError as error:
        raise SparkRefuses(error.message) from error


def with_own_sql(
    sink: "Callable[[DataFrame, int], None]", view: str, text: str
) -> "Callable[[DataFrame, int], None]":
    """Return the sink behind its own query, which is asked anew for each batch."""

    def write(frame: "DataFrame", batch_id: int) -> None:
        frame.createOrReplaceTempView(view)
        sink(frame.sparkSession.sql(text), batch_id)

    return write


def _asked(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except (PySparkException, Py4JJavaError) as error:
        # The second is what PySpark does not translate: of Hadoop's file systems, say.
        said = _first(error)
        # Where the sentence has several lines, the place is behind the last of them.
        found = _AT.search(str(error))
        said = _STATE.sub("", _AT.sub("", said)).strip().rstrip(";.")
        if found is None:
            raise SparkRefuses(said) from error
        raise SparkRefuses(said, int(found["line"]) - 1, int(found["at"])) from error


def _first(error: BaseException) -> str:
    # Py4J's own text is about the call, and Java's comes behind it with all of the stack.
    java = getattr(error, "java_exception", None)
    said = str(error if java is None else java.toString()).strip()
    return said.splitlines()[0] if said else type(error).__name__
