"""How a command finds the brokers: the options that Kafka's own tools have."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from twophase.cli.progress import bar
from twophase.cli.properties import read_properties
from twophase.errors import ConfigurationError

if TYPE_CHECKING:
    from twophase.kafka.options import KafkaOptions
    from twophase.kafka.wire import Wire

F = TypeVar("F", bound=Callable[..., Any])

_SERVERS = "bootstrap.servers"
# A person waits: a wrong address, or one node that does not answer, is said sooner than after a
# sink's minute.
_PATIENCE = {"kafka.max.block.ms": "20000", "kafka.request.timeout.ms": "10000"}


def connection_options(command: F) -> F:
    """Give a command --bootstrap-server and --command-config."""
    config = click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A properties file with security.protocol and the like, as for Kafka's own tools.",
    )
    servers = click.option(
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        help="Where the brokers are; needed unless the file has bootstrap.servers.",
    )
    return servers(config(command))


def kafka_options(bootstrap_server: str | None, command_config: Path | None) -> "KafkaOptions":
    """Return the typed options of the connection, or refuse the first wrong one."""
    return patient(kafka_texts(bootstrap_server, command_config))


def patient(texts: Mapping[str, str]) -> "KafkaOptions":
    """Return typed options with which a command asks, and waits as long as a person would."""
    # The Kafka client takes a second to import, which no other command should pay.
    from twophase.kafka.options import KafkaOptions  # noqa: PLC0415

    return KafkaOptions.parse({**_PATIENCE, **texts})


def kafka_texts(bootstrap_server: str | None, command_config: Path | None) -> dict[str, str]:
    """Return the options as a sink takes them; they may hold secrets.

    Without an address the command is wrong, which is a usage error of every command.
    """
    found = _read(command_config) if command_config else {}
    if bootstrap_server is not None:
        found[_SERVERS] = bootstrap_server
    if _SERVERS not in found:
        raise click.UsageError(
            "it is not known where the brokers are; give --bootstrap-server HOST:PORT, or "
            "bootstrap.servers in the file of --command-config"
        )
    return {f"kafka.{key}": value for key, value in found.items()}


@contextmanager
def connected(bootstrap_server: str | None, command_config: Path | None) -> "Iterator[Wire]":
    """Open the connections for one command; on a terminal a bar moves until a broker answers."""
    with connected_by(kafka_options(bootstrap_server, command_config)) as wire:
        yield wire


@contextmanager
def connected_by(options: "KafkaOptions") -> "Iterator[Wire]":
    """Open the connections with these options, as `connected` does."""
    from twophase.kafka.wire import Wire  # noqa: PLC0415

    with bar("finding the brokers"):
        wire = Wire(options)
    with wire:
        yield wire


def _read(path: Path) -> dict[str, str]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"--command-config {path} cannot be read: {error.strerror}"
        ) from error
    try:
        return read_properties(_text(content))
    except ValueError as error:
        raise ConfigurationError(
            f"--command-config {path} is no properties file: {error}; write \\\\ for a backslash"
        ) from error


def _text(content: bytes) -> str:
    # Latin-1 is what Java reads, UTF-8 is what people write; both agree on ASCII.
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")
