"""Whether stores answer and topics are there: said in a sentence before Spark waits for minutes."""

from collections.abc import Iterable, Mapping
from typing import Final

from twophase.options import Secret

# A person waits, or a scheduler that starts again: sooner than after a sink's minute.
_PATIENCE: Final = {"kafka.max.block.ms": "20000", "kafka.request.timeout.ms": "10000"}


def reach_kafka(
    options: Mapping[str, str], topics: Iterable[str], *, to_read: bool = False
) -> None:
    """Raise where no broker answers, or a topic is not there, or may not be looked at.

    With `to_read` also where its rows may not be read, which Spark would say for each task.
    """
    from twophase.kafka.check_rights import check_readable  # noqa: PLC0415
    from twophase.kafka.counts import ask_partition_counts  # noqa: PLC0415 - takes a second
    from twophase.kafka.options import KafkaOptions  # noqa: PLC0415
    from twophase.kafka.wire import Wire  # noqa: PLC0415

    given = {name.strip().lower() for name in options}
    patience = {name: value for name, value in _PATIENCE.items() if name not in given}
    names = list(topics)
    with Wire(KafkaOptions.parse({**patience, **options})) as wire:
        if to_read and names:
            check_readable(wire, names)
        ask_partition_counts(wire, names)


def reach_postgres(url: Secret) -> None:
    """Raise where the server does not answer or refuses the user."""
    from twophase.postgres.connection import connected  # noqa: PLC0415 - needs the extra postgres

    with connected(url) as connection:
        connection.execute("SELECT 1")
