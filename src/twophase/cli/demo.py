"""`twophase demo`: what a transaction hides and reveals, on a real Kafka."""

from typing import TYPE_CHECKING

import click
from rich.table import Table

from twophase.cli.output import output_option, show
from twophase.embedded import EmbeddedKafka
from twophase.embedded.progress import waiting

if TYPE_CHECKING:
    from twophase.verify.story import Moment

_MORAL = (
    "A reader in read_committed sees a transaction when it is committed, whole, and an aborted one "
    "never.\nThat is the ground on which every row of a Spark batch can appear exactly once."
)

_EXAMPLE = """\b
Example:
  twophase demo
  twophase demo --output json
"""


@click.command(epilog=_EXAMPLE)
@output_option
def demo(output: str) -> None:
    """Show one committed and one aborted transaction, as both kinds of reader see them.

    Starts a real Kafka on this machine, writes 1,000 orders in a transaction and commits it, writes
    1,000 more and aborts. Nothing is left running. Needs Java 17 or newer.
    """
    # Arrow and the Kafka client take a second to import, which no other command should pay.
    from twophase.verify.story import tell  # noqa: PLC0415

    with EmbeddedKafka() as cluster, waiting("writing, reading, committing, aborting"):
        moments = list(tell(cluster.bootstrap_servers))
    show(moments, output, _table(cluster.version, moments), _MORAL)


def _table(version: str, moments: "list[Moment]") -> Table:
    table = Table(title=f"One topic of Apache Kafka {version}, two readers")
    table.add_column("moment")
    table.add_column("read_committed sees", justify="right")
    table.add_column("read_uncommitted sees", justify="right")
    for moment in moments:
        table.add_row(moment.moment, f"{moment.read_committed:,}", f"{moment.read_uncommitted:,}")
    return table
