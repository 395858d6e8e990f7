"""`twophase check`: before a sink's first start, whether everything is as it must be."""

from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from twophase.cli.connection import connected, connection_options
from twophase.cli.output import output_option, show
from twophase.cli.progress import bar
from twophase.commit.naming import SinkName
from twophase.errors import TwoPhaseError

if TYPE_CHECKING:
    from twophase.kafka.findings import Finding

_FAILED = 2
_STYLES = {"ok": "green", "not known": "yellow", "warning": "yellow", "error": "red"}
_CODES = {"ok": 0, "not known": 1, "warning": 1, "error": _FAILED}


class _CannotCheck(click.ClickException):
    # 1, which is every other command's code for an error, means a warning here.
    exit_code = _FAILED


_EXAMPLE = """\b
Example: with the options that the sink will have, in a properties file
  twophase check --sink-id orders --topic orders-clean --bootstrap-server broker-1:9092
  twophase check --sink-id orders --topic orders-clean --command-config client.properties \\
      --output json | jq '.findings[] | select(.level != "ok")'
"""


@click.command(epilog=_EXAMPLE)
@click.option("--sink-id", metavar="S", required=True, help="The sink id that the query will have.")
@click.option("--topic", metavar="T", required=True, help="The topic that it will write to.")
@click.option(
    "--dead-letter-topic", metavar="D", help="Its dead_letter_topic, if it will have one."
)
@output_option
@connection_options
@click.pass_context
def check(
    context: click.Context,
    /,
    sink_id: str,
    topic: str,
    dead_letter_topic: str | None,
    output: str,
    **connection: Any,
) -> None:
    """Check brokers, topic, rights and sink id before a sink's first start.

    Each point is one line: ok, not known, warning or error, and under it why it matters and what to
    do. Changes nothing, and does no harm to jobs that run. Sink options such as
    transaction.timeout.ms and batch.size are taken from the file of --command-config.

    The exit code says the worst: 0 all is ok, 1 a warning or something that cannot be known, 2 an
    error, also where no broker answers or the command is wrong.
    """
    try:
        found = _findings(SinkName(sink_id), topic, dead_letter_topic, connection)
    except TwoPhaseError as error:
        raise _CannotCheck(str(error)) from error
    worst = max(found, key=lambda each: _CODES[each.level], default=None)
    data = {"worst": worst.level if worst else "ok", "findings": found}
    show(data, output, *(line for each in found for line in _text(each)))
    context.exit(_CODES[worst.level] if worst else 0)


def _findings(
    name: SinkName, topic: str, dead_letter_topic: str | None, connection: dict[str, Any]
) -> "list[Finding]":
    with connected(**connection) as wire, bar("checking") as start:
        from twophase.cli.machine import machine_findings  # noqa: PLC0415 - see connection.py
        from twophase.kafka.check import LETTER_PARTS, PARTS, findings  # noqa: PLC0415

        advance = start(PARTS + (LETTER_PARTS if dead_letter_topic else 0))
        found = findings(wire, name, topic, advance, dead_letter_topic)
        return [*found, *machine_findings()]


def _text(found: "Finding") -> list[Text]:
    head = Text(f"{found.level:<10}", _STYLES[found.level]) + Text(f"{found.point}: {found.said}")
    more = (("why", found.why), ("do", found.do))
    return [head, *(Text(f"{'':10}{what}: {said}") for what, said in more if said)]
