"""`twophase sinks`: look at a sink, and resolve what it refuses to decide by itself."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.text import Text

from twophase.cli.asking import asking, confirm
from twophase.cli.connection import connected, connection_options
from twophase.cli.offsets import hash_of_batch
from twophase.cli.output import output_option, show
from twophase.cli.progress import bar
from twophase.cli.sink_text import listed_text, marker_text, state_text
from twophase.commit.naming import SinkName
from twophase.commit.refusals import RUN_OWNER

if TYPE_CHECKING:
    from twophase.kafka.sinks import Change, Plan

F = TypeVar("F", bound=Callable[..., Any])

NO_SINK = 3
_BATCH = click.IntRange(0, 2**63 - 1)

_SINKS_EXAMPLE = """\b
Example: a query was refused with TWOPHASE_MARKER_MISSING for its batch 7
  twophase sinks show orders --bootstrap-server broker-1:9092
  twophase sinks adopt orders --bootstrap-server broker-1:9092 --topic orders \\
      --owner 6f1c6a0e-6a3f-4f0e-9d0e-0c9f8a3d2b11 --not-committed 7
"""


@click.group(epilog=_SINKS_EXAMPLE)
def sinks() -> None:
    """List sinks, look at one, hand it to a query, or forget it.

    A sink that cannot know whether a batch is in the topic refuses to go on, and its error ends
    with the command to run here. What each refusal means is in docs/sinks.md.
    """


def _sink_options(command: F) -> F:
    command = output_option(connection_options(command))
    command = click.option(
        "--topic",
        metavar="TOPIC",
        help="The sink's topic or marker_topic; found by itself while there is a marker.",
    )(command)
    command = click.option("--run", "run_id", metavar="RUN_ID", help="A batch job's run.")(command)
    return click.argument("sink_id")(command)


_LIST_EXAMPLE = """\b
Example: which sinks there are, and those with an open transaction
  twophase sinks list --bootstrap-server broker-1:9092
  twophase sinks list --bootstrap-server broker-1:9092 --output json \\
      | jq '.sinks[] | select(.state.transactional_id.open_ms != null)'
"""


@sinks.command("list", epilog=_LIST_EXAMPLE)
@output_option
@connection_options
def list_all(output: str, **connection: Any) -> None:
    """List every sink that the brokers know of, and every run of a batch job.

    For each: owner, last batch, rows, when it was written, the state of its transactional id, and
    the age of an open transaction. Changes nothing. Found by name, in transactional ids and groups;
    those that you may not DESCRIBE are left out by the brokers without a word.
    """
    with connected(**connection) as wire, bar("looking at sinks") as start:
        from twophase.kafka.sink_list import list_sinks  # noqa: PLC0415 - see connection.py

        found = list_sinks(wire, start)
    said = [line for each in found for line in listed_text(each)]
    show(
        {"sinks": found},
        output,
        *(said or [Text("no sink is known here, among those that this user may DESCRIBE")]),
    )


_SHOW_EXAMPLE = """\b
Example: who owns the sink, and what is its last batch
  twophase sinks show orders --bootstrap-server broker-1:9092 --output json | jq .marker
"""


@sinks.command("show", epilog=_SHOW_EXAMPLE)
@_sink_options
@click.pass_context
def show_sink(
    context: click.Context,
    /,
    sink_id: str,
    run_id: str | None,
    topic: str | None,
    output: str,
    **connection: Any,
) -> None:
    """Show a sink's marker and transactional id, and what a start of the query would do.

    Changes nothing. The exit code is 0, or 3 where the brokers know no such sink.
    """
    name = SinkName(sink_id, run_id)
    with connected(**connection) as wire:
        from twophase.kafka.sink_state import look  # noqa: PLC0415 - see connection.py

        state = look(wire, name, topic)
    show(state, output, *state_text(state))
    if not state.exists:
        context.exit(NO_SINK)


_ADOPT_EXAMPLE = """\b
Example: batch 7 of the query is in the topic, and shall be skipped
  twophase sinks adopt orders --bootstrap-server broker-1:9092 \\
      --owner 6f1c6a0e-6a3f-4f0e-9d0e-0c9f8a3d2b11 --committed 7 --checkpoint /data/orders
\b
Example: it is not there, and shall be written
  twophase sinks adopt orders --bootstrap-server broker-1:9092 \\
      --owner 6f1c6a0e-6a3f-4f0e-9d0e-0c9f8a3d2b11 --not-committed 7
"""


@sinks.command("adopt", epilog=_ADOPT_EXAMPLE)
@_sink_options
@asking
@click.option(
    "--owner",
    metavar="QUERY",
    help="The query that goes on: its id, or the owner that its sink was given. Not with --run.",
)
@click.option("--committed", type=_BATCH, metavar="N", help="Batch N is in the topic: skip it.")
@click.option("--not-committed", type=_BATCH, metavar="N", help="Batch N is not: write it.")
@click.option("--offsets", metavar="HASH", help="The hash of batch N's source offsets.")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The query's checkpoint in a local folder, to compute that hash from.",
)
def adopt_sink(
    *,
    sink_id: str,
    run_id: str | None,
    topic: str | None,
    output: str,
    yes: bool,
    owner: str | None,
    committed: int | None,
    not_committed: int | None,
    offsets: str | None,
    checkpoint: Path | None,
    **connection: Any,
) -> None:
    """Say whether a batch is in the topic, and let its query go on.

    Writes the sink's marker in a transaction of its own. A driver that still runs is stopped, and
    what it has open is aborted. Shows what will be done and what is at risk, and asks.
    """
    name = SinkName(sink_id, run_id)
    owner = _owner(owner, run_id)
    number, offsets = _decision(
        committed,
        not_committed,
        owner=owner,
        offsets=offsets,
        checkpoint=checkpoint,
        of_run=run_id is not None,
    )
    with connected(**connection) as wire:
        from twophase.kafka.sinks import Adoption, adopt, plan_adopt  # noqa: PLC0415

        adoption = Adoption(owner, number, offsets)
        plan = plan_adopt(wire, name, topic, adoption)
        _ask(plan, yes=yes)
        done = adopt(wire, plan, adoption)
    who = f"query {owner}" if run_id is None else f"run {run_id}"
    _tell(done, output, f"sink {sink_id} is adopted; start {who} now")


_RESET_EXAMPLE = """\b
Example: the topic was emptied, and the query starts again from its beginning
  twophase sinks reset orders --bootstrap-server broker-1:9092
"""


@sinks.command("reset", epilog=_RESET_EXAMPLE)
@_sink_options
@asking
def reset_sink(
    *,
    sink_id: str,
    run_id: str | None,
    topic: str | None,
    output: str,
    yes: bool,
    **connection: Any,
) -> None:
    """Forget a sink: the next query under its id starts as with a new one.

    The rows in the topic stay. The sink no longer knows of them, so that a query which reads its
    source from the beginning writes them a second time. Shows what will be done, and asks.
    """
    name = SinkName(sink_id, run_id)
    with connected(**connection) as wire:
        from twophase.kafka.sinks import plan_reset, reset  # noqa: PLC0415

        plan = plan_reset(wire, name, topic)
        _ask(plan, yes=yes)
        done = reset(wire, plan)
    _tell(done, output, f"sink {sink_id} is forgotten")


def _owner(owner: str | None, run_id: str | None) -> str:
    if run_id is not None:
        if owner is not None:
            raise click.UsageError("a run has no owner but itself: leave out --owner with --run")
        return RUN_OWNER
    if not owner or not owner.isprintable() or owner == RUN_OWNER:
        raise click.UsageError("give --owner with the id of the query that goes on")
    return owner


def _decision(
    committed: int | None,
    not_committed: int | None,
    *,
    owner: str,
    offsets: str | None,
    checkpoint: Path | None,
    of_run: bool,
) -> tuple[int, str | None]:
    """Return the batch and, where it is in the topic, its offsets hash."""
    if (committed is None) == (not_committed is None):
        raise click.UsageError("give either --committed N or --not-committed N")
    if of_run and (offsets is not None or checkpoint is not None or committed or not_committed):
        raise click.UsageError("a run is batch 0 and has no offsets: --committed 0 is all")
    if committed is None:
        if offsets is not None or checkpoint is not None:
            raise click.UsageError("--offsets and --checkpoint belong to --committed")
        return not_committed or 0, None
    return committed, "" if of_run else hash_of_batch(committed, owner, offsets, checkpoint)


def _ask(plan: "Plan", *, yes: bool) -> None:
    lines = [f"now:   {marker_text(plan.before)}", f"after: {plan.after}"]
    confirm([*lines, *(f"  - {risk}" for risk in plan.risks)], yes=yes)


def _tell(done: "Change", output: str, said: str) -> None:
    show(done, output, Text(said if done.changed else f"nothing was written: {done.reason}"))
    if not done.changed:
        # No error beside the result, which says it as well.
        click.echo("run the command again if it is still what you want", err=True)
        click.get_current_context().exit(1)
