"""A run for programs: one JSON object a line."""

import json
from datetime import UTC, datetime
from typing import Any, Self

import click

from twophase.cli.run_output import complain
from twophase.pipeline.endings import Ending
from twophase.pipeline.events import Event
from twophase.pipeline.mistakes import PipelineWrong


class JsonTeller:
    """Prints one JSON object a line for everything but the status, which is for people."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind: each line was flushed."""

    def __call__(self, event: Event) -> None:
        """Tell an event."""
        if event.event != "status":
            _print_json(event.told())


def _print_json(told: dict[str, Any]) -> None:
    click.echo(json.dumps({"time": datetime.now(UTC).isoformat(), **told}, default=str))


def print_failure(error: Exception, ending: Ending, error_code: str | None) -> None:
    """Print why a run failed, or did not begin; with the keys that every command's error has."""
    told: dict[str, Any] = {"event": "failed", "code": int(ending), "error": str(error)}
    told["error_code"] = error_code
    if isinstance(error, PipelineWrong):
        told["mistakes"] = [
            {"file": error.file, "line": each.place.line, "column": each.place.column}
            | {"said": each.said}
            for each in error.mistakes
        ]
        told["more_mistakes"] = error.more
    try:
        _print_json(told)
    except OSError:
        # Perhaps a person looks at what is left.
        complain(str(error))
