"""`twophase demo`: the same query through two sinks, both killed with -9, and what readers saw."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from twophase.cli.output import output_option, show
from twophase.cli.report_file import check_writable, written
from twophase.embedded import EmbeddedKafka

if TYPE_CHECKING:
    from twophase.verify.duel import Outcome, Standing
    from twophase.verify.verdict import Verdict

_EXAMPLE = """\b
Example: more of everything, and the numbers for a program
  twophase demo --rows 1000000 --kills 6
  twophase demo --output json
"""
_LARGEST = 100_000_000
_BATCHES = 10


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo found, and where its report lies; None where it could not be written."""

    verdicts: "tuple[Verdict, ...]"
    kills: Mapping[str, int]
    took_s: float
    report: str | None


@click.command(epilog=_EXAMPLE)
@click.option(
    "--rows",
    type=click.IntRange(1_000, _LARGEST),
    default=200_000,
    show_default=True,
    help="How many orders go through each sink.",
)
@click.option(
    "--kills",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    help="How often each driver is killed with -9.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("twophase-demo.html"),
    show_default=True,
    help="Where the report with plots is written.",
)
@output_option
@click.pass_context
def demo(context: click.Context, /, rows: int, kills: int, report: Path, output: str) -> None:
    """Kill two sinks with -9 and count what readers see.

    Starts a real Kafka on this machine and a stream of orders. The same Spark query writes them
    through Spark's own Kafka sink and through twophase, each driver in a process of its own, killed
    again and again in the middle of its work. A reader watches all along; at the end every row is
    counted, and a report with plots is written. Takes two to three minutes, needs Java 17 or newer
    and pyspark; nothing is left running, also after Ctrl-C.

    The exit code is 0 when both were counted and the report is written, whatever was found.
    """
    # Spark, Arrow and the Kafka client take seconds to import, which no other command should pay.
    from twophase.spark.session import connector_jars  # noqa: PLC0415
    from twophase.verify.duel import Plan, duel  # noqa: PLC0415
    from twophase.verify.trial import SPARK, TWOPHASE  # noqa: PLC0415

    check_writable(report)
    connector_jars({})
    plan = Plan(rows=rows, rows_per_batch=max(1, rows // _BATCHES), kills=kills)
    with (
        tempfile.TemporaryDirectory(prefix="twophase-demo-") as folder,
        EmbeddedKafka() as cluster,
        _bars((SPARK, TWOPHASE), rows, kills) as told,
    ):
        outcome = duel(cluster.bootstrap_servers, Path(folder), (SPARK, TWOPHASE), plan, told)
    about = (
        f"{rows:,} orders through each sink, each driver killed with -9 {kills} times; "
        f"Apache Kafka {cluster.version} and Spark on one machine, {outcome.took_s:.0f} s"
    )
    where = written(report, outcome.history, outcome.verdicts, about)
    result = DemoResult(outcome.verdicts, outcome.kills, outcome.took_s, where)
    said = [_table(outcome)] + ([f"The report with plots: {where}"] if where else [])
    show(result, output, *said)
    if where is None:
        context.exit(1)


@contextmanager
def _bars(sinks: tuple[str, ...], rows: int, kills: int) -> Iterator[Any]:
    """Show how far each sink is, on stderr, so that JSON on stdout stays alone."""
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(),
        TextColumn(
            "{task.fields[seen]:>9,} rows visible, killed {task.fields[kills]} of {task.fields[of]}"
        ),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bars = {
            sink: progress.add_task(sink, total=rows, seen=0, kills=0, of=kills) for sink in sinks
        }

        def told(standings: "Mapping[str, Standing]") -> None:
            for sink, standing in standings.items():
                done = min(standing.rows, rows)
                progress.update(
                    bars[sink], completed=done, seen=standing.rows, kills=standing.kills
                )

        yield told


def _table(outcome: "Outcome") -> Table:
    table = Table(title="The same query, the same kills, two sinks")
    table.add_column("")
    for verdict in outcome.verdicts:
        table.add_column(verdict.sink, justify="right")
    killed = (
        "driver killed with -9",
        *(f"{outcome.kills[v.sink]} times" for v in outcome.verdicts),
    )
    table.add_row(*killed)
    for cells in zip(*(verdict.lines() for verdict in outcome.verdicts), strict=True):
        wrong = [text[0] in "123456789" for _, text in cells]
        label = cells[0][0]
        counts = label not in {"rows in", "rows out", "longest reader stall"}
        table.add_row(
            label,
            *(
                f"[red]{text}[/red]" if counts and bad else text
                for (_, text), bad in zip(cells, wrong, strict=True)
            ),
        )
    return table
