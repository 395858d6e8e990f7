"""A path to a `Pipeline`, or every mistake of the file at once."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twophase.errors import ConfigurationError
from twophase.guarantee import Guarantee
from twophase.options import nearest
from twophase.pipeline.document import FILE_BYTES_MAX, read_document
from twophase.pipeline.filling import fill_conf
from twophase.pipeline.mistakes import Mistakes
from twophase.pipeline.model import Pipeline, Step
from twophase.pipeline.objects import NotFound, Objects
from twophase.pipeline.reading import Reader
from twophase.pipeline.references import References, names_secret
from twophase.pipeline.shared import read_shared
from twophase.pipeline.sink_parts import SinkReader
from twophase.pipeline.source import read_source
from twophase.pipeline.table import PIPELINE


def load_pipeline(path: Path) -> Pipeline:
    """Return the pipeline of a file; raise `PipelineWrong` with everything that is wrong."""
    mistakes = Mistakes(str(path))
    folder = path.absolute().parent
    node = read_document(_read(path), mistakes)
    references = References(folder)
    mistakes.hide = references.hide
    reader = Reader(mistakes, references, folder)
    found = reader.read(PIPELINE, node, ()) if node is not None else None
    if found is None:
        mistakes.check()
    pipeline = _assemble(path, reader, found or {}, Objects(folder))
    mistakes.check()
    if pipeline is None:
        raise ConfigurationError(f"{path} cannot be read as a pipeline")
    return pipeline


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > FILE_BYTES_MAX:
        raise ConfigurationError(f"{path} has more than {FILE_BYTES_MAX} bytes; no pipeline has")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{path} is not text in UTF-8 (at byte {error.start}); save it so"
        ) from error


def _assemble(
    path: Path, reader: Reader, found: Mapping[str, Any], objects: Objects
) -> Pipeline | None:
    shared = read_shared(reader, found["kafka"] or {})
    source = None
    if found["source"] is not None and found["source"][1] is not None:
        source = read_source(reader, found["source"], shared)
    first = found["source"][1]["view"] if found["source"] and found["source"][1] else None
    steps = _steps(reader, found["steps"] or [], first, objects)
    guarantee = Guarantee(found["guarantee"] or Guarantee.EXACTLY_ONCE)
    sinks = SinkReader(reader, shared, guarantee, objects).read(found["sinks"] or [])
    spark = found["spark"] or {"master": "local[*]", "conf": None}
    metrics = found["metrics"]
    conf = fill_conf(reader, spark["conf"] or {}, ("spark", "conf"))
    if reader.mistakes.found or source is None:
        return None
    return Pipeline(
        file=path,
        name=found["name"] or path.stem,
        source=source,
        steps=tuple(steps),
        sinks=tuple(sinks),
        checkpoint=found["checkpoint"],
        trigger=found["trigger"],
        output_mode=found["output_mode"],
        guarantee=guarantee,
        restarts=found["restarts"],
        metrics=None if metrics is None else (metrics["address"], metrics["port"]),
        master=spark["master"],
        conf=conf,
        secret_conf=frozenset(name for name in conf if names_secret(name)),
        modules=objects.modules,
        mistakes=reader.mistakes,
        references=reader.references,
        raw=reader.raw,
    )


def _steps(reader: Reader, found: list[Any], first: str | None, objects: Objects) -> list[Step]:
    steps: list[Step] = []
    views = [first] if first else []
    for at, given in enumerate(found):
        where = ("steps", at)
        if given is None:
            continue
        view = given["view"] or f"step{at + 1}"
        if view.lower() in {each.lower() for each in views}:
            reader.mistakes.add((*where, "view"), f"view {view} is there already; choose another")
        written = [name for name in ("sql", "python") if (*where, name) in reader.mistakes.places]
        if len(written) != 1:
            said = "sql and python are both here" if written else "neither sql nor python is here"
            reader.mistakes.add(where, f"steps[{at}]: {said}; write one of them")
        source = given["from"] or (views[-1] if views else "")
        if given["from"] and given["sql"]:
            said = "from belongs to python; a query names its views itself"
            reader.mistakes.add((*where, "from"), said)
        elif given["from"] and views and given["from"] not in views:
            guess = nearest(given["from"], views)
            hint = f"did you mean {guess}? " if guess else ""
            said = f"{hint}there are {', '.join(views)}"
            reader.mistakes.add((*where, "from"), f"no view before is {given['from']}; {said}")
        function = _function(reader, given["python"], (*where, "python"), objects)
        steps.append(
            Step(
                view=view,
                sql=given["sql"],
                python=given["python"],
                function=function,
                source=source,
                where=where,
            )
        )
        views.append(view)
    return steps


def _function(reader: Reader, name: str | None, where: Any, objects: Objects) -> Any:
    if name is None:
        return None
    try:
        found = objects.find(name)
    except NotFound as error:
        reader.mistakes.add(where, str(error))
        return None
    if not callable(found):
        said = (
            f"{name} is an object of {type(found).__name__}; allowed is a function of a DataFrame"
        )
        reader.mistakes.add(where, said)
        return None
    return found
