"""The machine's table as Markdown, for the documents and for whoever wonders."""

import inspect
from collections.abc import Iterable

from twophase.commit.machine import TABLE, Row


def transitions_markdown(table: Iterable[Row] = TABLE) -> str:
    """Return one line per transition, in the order in which they are tried."""
    lines = ["| state | event | if | do | then |", "|---|---|---|---|---|"]
    for row in table:
        effect = inspect.signature(row.effect).return_annotation.__name__
        when = row.when.__name__.replace("_", " ")
        lines.append(
            f"| {row.state.name} | {row.event.__name__} | {when} | {effect} | {row.then.name} |"
        )
    return "\n".join(lines) + "\n"
