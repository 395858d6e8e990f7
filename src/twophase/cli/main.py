"""The `twophase` command: its subcommands, and what a person sees when one fails."""

import sys
from collections.abc import Sequence

import click

from twophase.cli.check import check
from twophase.cli.demo import demo
from twophase.cli.failing import FAILED, UNWRITTEN, told
from twophase.cli.kafka import kafka
from twophase.cli.kafka_topic import topic
from twophase.cli.run import run as run_command
from twophase.cli.run_output import drop_unwritten
from twophase.cli.sinks import sinks
from twophase.cli.transactions import transactions
from twophase.cli.verify import verify
from twophase.errors import TwoPhaseError

_EXAMPLE = """\b
Example: a real Kafka on this machine, and its address
  twophase kafka start
  twophase kafka status
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EXAMPLE)
@click.version_option(package_name="twophase")
def twophase() -> None:
    """Exactly-once sinks for PySpark, and the tools around them."""


twophase.add_command(check)
twophase.add_command(demo)
twophase.add_command(kafka)
kafka.add_command(topic)
twophase.add_command(run_command)
twophase.add_command(sinks)
twophase.add_command(transactions)
twophase.add_command(verify)


def main() -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; an error is one sentence on stderr."""
    try:
        code = twophase.main(list(arguments), prog_name="twophase", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (TwoPhaseError, click.ClickException, click.Abort, KeyboardInterrupt, OSError) as error:
        return told(error, arguments)
    except SystemExit as ended:
        if ended.code != FAILED:
            raise
        # So click and rich end where whoever reads is gone; that needs no word.
        return UNWRITTEN
    finally:
        drop_unwritten()
    return code if isinstance(code, int) else 0
