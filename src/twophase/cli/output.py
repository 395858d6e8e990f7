"""Printing what a command returned: as text for people, as JSON for programs."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any, TypeVar

import click
from rich.console import Console, RenderableType

F = TypeVar("F", bound=Callable[..., Any])
TEXT, JSON = "text", "json"


def output_option(command: F) -> F:
    """Give a command the option --output, handed to it as `output`."""
    option = click.option(
        "--output",
        type=click.Choice([TEXT, JSON]),
        default=TEXT,
        show_default=True,
        help="Text for people, or JSON for programs.",
    )
    return option(command)


def show(data: object, output: str, *text: RenderableType) -> None:
    """Print the data as JSON, or the text that stands for it."""
    if output == JSON:
        click.echo(json.dumps(data, default=_plain, indent=2))
        return
    console = Console(highlight=False, soft_wrap=True)
    for part in text:
        console.print(part)


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)
