"""The views of a pipeline, made by Spark: what it refuses is told with its place in the file."""

import re
from typing import Any, Final

from twophase.pipeline.mistakes import Place, Where
from twophase.pipeline.model import Pipeline

_NO_VIEW: Final = re.compile(r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view `(\w+)`")


def make_views(pipeline: Pipeline, session: Any) -> Any:
    """Return the DataFrame that goes to the sinks; raise `PipelineWrong` for all that is refused.

    Nothing runs by this: Spark parses and analyses.
    """
    from twophase.spark import pipeline_frames as spark  # noqa: PLC0415

    source = pipeline.source
    frame, views, broken = None, [source.view], set[str]()
    try:
        frame = spark.source_view(
            session,
            source.view,
            kind=source.format,
            options=source.options,
            schema=source.schema,
            path=source.path,
        )
    except spark.SparkRefuses as error:
        pipeline.mistakes.add(("source", source.kind), f"Spark refuses the source: {error.said}")
        broken.add(source.view)
    for step in pipeline.steps:
        try:
            if step.sql is not None:
                frame = spark.sql_view(session, step.view, step.sql)
            elif step.function is not None:
                frame = spark.python_view(session, step.view, step.function, step.source)
        except spark.SparkRefuses as error:
            lost = _lost_view(error.said) if step.sql is not None else step.source
            # What comes after a view that is not there says nothing new.
            if lost not in broken:
                hint = "" if lost is None else f"; the views before are {', '.join(views)}"
                key = "python" if step.sql is None else "sql"
                _add(pipeline, (*step.where, key), error, hint)
            broken.add(step.view)
        views.append(step.view)
    pipeline.mistakes.check()
    _check_stream(pipeline, frame)
    _check_sinks(pipeline, frame)
    pipeline.mistakes.check()
    return frame


def _check_stream(pipeline: Pipeline, frame: Any) -> None:
    """Refuse rows that are there once, which no streaming query can be made of."""
    if not frame.isStreaming:
        step = pipeline.steps[-1]
        said = f"what comes out is no stream: it reads nothing of the view {pipeline.source.view}"
        pipeline.mistakes.add(
            (*step.where, "python" if step.sql is None else "sql"),
            f"{said}; read it, or a view that is made of it",
        )
        pipeline.mistakes.check()


def _check_sinks(pipeline: Pipeline, frame: Any) -> None:
    from twophase.spark import pipeline_frames as spark  # noqa: PLC0415

    for sink in pipeline.sinks:
        rows = frame
        try:
            if sink.sql is not None:
                rows = spark.check_own_sql(frame, pipeline.last_view, sink.sql)
            if sink.kind == "kafka":
                spark.check_kafka_columns(rows, sink.topic)
        except spark.SparkRefuses as error:
            _add(pipeline, (*sink.where, "sql") if sink.sql else sink.where, error)


def _lost_view(said: str) -> str | None:
    found = _NO_VIEW.search(said)
    return None if found is None else found[1]


def _add(pipeline: Pipeline, where: Where, error: Any, hint: str = "") -> None:
    place = _place(pipeline, where, error.line, error.at)
    pipeline.mistakes.add_at(place, f"{error.said}{hint}")


def _place(pipeline: Pipeline, where: Where, line: int | None, at: int | None) -> Place:
    """Return the line of the file in which a line of the SQL stands, where that can be told."""
    raw = pipeline.raw.get(where)
    if line is None or at is None or raw is None or raw.begins is None:
        return pipeline.mistakes.place(where)
    return Place(raw.begins.line + line, raw.begins.column + at)
