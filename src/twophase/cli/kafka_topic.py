"""`twophase kafka topic`: topics on the Kafka of this machine, for development."""

from dataclasses import dataclass
from pathlib import Path

import click

from twophase.cli.connection import kafka_options
from twophase.cli.output import output_option, show
from twophase.embedded import detached
from twophase.embedded.secured import ADMIN
from twophase.errors import SetupError

_PARTITIONS_MAX = 1_000

_EXAMPLE = """\b
Example: what examples/orders.yaml needs
  twophase kafka start --port 9092
  twophase kafka topic orders orders-clean
"""


@dataclass(frozen=True, slots=True)
class Made:
    """The topics that are there now, and those of them that were made."""

    topics: tuple[str, ...]
    made: tuple[str, ...]


@click.command(epilog=_EXAMPLE)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--partitions", type=click.IntRange(1, _PARTITIONS_MAX), default=4, show_default=True)
@output_option
def topic(names: tuple[str, ...], partitions: int, output: str) -> None:
    """Make topics on the running Kafka; those that are there stay as they are.

    Where Kafka was started with users, it is asked as their super user, admin.
    """
    now = detached.status()
    if now.bootstrap_servers is None:
        raise SetupError("Kafka is not running; start it first: twophase kafka start")
    # The Kafka client takes a second to import, which no other command should pay.
    from kafka.errors import InvalidTopicError  # noqa: PLC0415

    from twophase.verify.topics import make_topics, topics_of  # noqa: PLC0415

    # Made with users, the cluster lets nobody in without a name, and its admin do everything.
    admin = now.users.get(ADMIN)
    options = kafka_options(now.bootstrap_servers, Path(admin) if admin else None)
    there = topics_of(options)
    missing = tuple(name for name in dict.fromkeys(names) if name not in there)
    try:
        if missing:
            make_topics(options, missing, partitions)
    except InvalidTopicError as error:
        raise click.BadParameter(
            "a topic's name has 1 to 249 letters, digits and . _ -", param_hint="NAME"
        ) from error
    said = f"made {', '.join(missing)}" if missing else "all of them are there already"
    show(Made(names, missing), output, said)
