"""`twophase check`: before a sink's first start, whether everything is as it must be."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from twophase.cli.connection import connected_by, connection_options, kafka_texts, patient
from twophase.cli.output import output_option, show
from twophase.cli.progress import bar
from twophase.commit.naming import SinkName
from twophase.errors import TwoPhaseError
from twophase.guarantee import Guarantee

if TYPE_CHECKING:
    from twophase.kafka.check_setup import Setup
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
@click.option("--marker-topic", metavar="M", help="Its marker_topic, if that is another one.")
@click.option(
    "--dead-letter-topic", metavar="D", help="Its dead_letter_topic, if it will have one."
)
@click.option(
    "--scope",
    type=click.Choice(["batch", "task"]),
    default="batch",
    show_default=True,
    help="Its scope.",
)
@click.option(
    "--guarantee",
    type=click.Choice([each.value for each in Guarantee]),
    default=Guarantee.EXACTLY_ONCE.value,
    show_default=True,
    help="Its guarantee: without transactions much is not asked.",
)
@click.option("--run", "run_id", metavar="R", help="The run_id, for a batch job.")
@click.option("--source-group", metavar="G", help="Its source_group, if it will have one.")
@click.option(
    "--source-topic",
    "source_topics",
    metavar="T",
    multiple=True,
    help="With --source-group: a topic that the query reads; may be given several times.",
)
@output_option
@connection_options
@click.pass_context
def check(
    context: click.Context,
    /,
    *,
    sink_id: str,
    topic: str,
    scope: str,
    run_id: str | None,
    output: str,
    bootstrap_server: str | None,
    command_config: Path | None,
    **settings: Any,
) -> None:
    """Check brokers, topics, rights and sink id before a sink's first start.

    Each point is one line: ok, not known, warning or error, and under it why it matters and what to
    do. Changes nothing, and does no harm to jobs that run. Sink options such as
    transaction.timeout.ms and batch.size are taken from the file of --command-config.

    The exit code says the worst: 0 all is ok, 1 a warning or something that cannot be known, 2 an
    error, also where no broker answers or the command is wrong.
    """
    from twophase.kafka.check_setup import Setup  # noqa: PLC0415 - see connection.py

    try:
        setup = Setup.of(SinkName(sink_id, run_id), topic, by_task=scope == "task", **settings)
        found = _findings(setup, kafka_texts(bootstrap_server, command_config))
    except TwoPhaseError as error:
        raise _CannotCheck(str(error)) from error
    worst = max(found, key=lambda each: _CODES[each.level], default=None)
    data = {"worst": worst.level if worst else "ok", "findings": found}
    show(data, output, *(line for each in found for line in _text(each)))
    context.exit(_CODES[worst.level] if worst else 0)


def _findings(setup: "Setup", texts: dict[str, str]) -> "list[Finding]":
    from twophase.cli.machine import machine_findings  # noqa: PLC0415 - see connection.py
    from twophase.kafka.check import findings  # noqa: PLC0415
    from twophase.kafka.options import acks_for  # noqa: PLC0415
    from twophase.kafka.task_sink import DEFAULTS  # noqa: PLC0415

    given = {**DEFAULTS, **texts} if setup.by_task else texts
    options = patient(given)
    # What the sink would refuse, before any broker is asked.
    acks_for(setup.guarantee, options)
    with connected_by(options) as wire, bar("checking") as start:
        found = findings(wire, setup, start)
    return [*found, *machine_findings()]


def _text(found: "Finding") -> list[Text]:
    head = Text(f"{found.level:<10}", _STYLES[found.level]) + Text(f"{found.point}: {found.said}")
    more = (("why", found.why), ("do", found.do))
    return [head, *(Text(f"{'':10}{what}: {said}") for what, said in more if said)]
