"""Connections to PostgreSQL, and what its errors mean here."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from twophase.errors import AccessDenied, ConfigurationError, RowRejected, StoreUnavailable
from twophase.options import Secret

# Whoever is gone without a word is noticed within a minute or so, unless the url says otherwise.
_DEFAULTS: Final[dict[str, Any]] = {
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 60_000,
}


@contextmanager
def connected(url: Secret) -> Iterator[psycopg.Connection[Any]]:
    """Open a connection without a transaction of its own, and close it."""
    with translated():
        connection = open_connection(url)
    try:
        with translated():
            yield connection
    finally:
        connection.close()


def place_of(url: Secret) -> str:
    """Return which database it is, in words that hold no secret; refuse what is no address."""
    try:
        parts = conninfo_to_dict(url.reveal())
    except psycopg.ProgrammingError:
        parts = {"port": "none"}
    # A password with a slash in it is read as a port: it must not be quoted by whoever connects.
    if not re.fullmatch("[0-9,]*", str(parts.get("port") or "")):
        raise ConfigurationError(
            "url is no address of a database; allowed is postgresql://user@host:5432/name, or "
            "host=... dbname=... as libpq has it; in a password write / as %2F, @ as %40, : as %3A"
        )
    return f"{parts.get('host', '')}:{parts.get('port', '')}/{parts.get('dbname', '')}"


def open_connection(url: Secret) -> psycopg.Connection[Any]:
    """Return a connection on which nothing is begun unless it is asked for."""
    given = conninfo_to_dict(url.reveal())
    # Arrow's text is UTF-8, and a binary COPY is read in the client's encoding, whatever it is.
    arguments = _DEFAULTS | given | {"client_encoding": "UTF8"}
    # PgBouncer may give the next transaction another connection, which has nothing prepared.
    return psycopg.connect(**arguments, autocommit=True, prepare_threshold=None)


@contextmanager
def translated() -> Iterator[None]:
    """Raise the errors of the driver as our own: what each asks of its caller."""
    try:
        yield
    except errors.InsufficientPrivilege as error:
        raise AccessDenied(f"PostgreSQL refuses: {_said(error)}") from error
    except errors.ObjectNotInPrerequisiteState as error:
        raise ConfigurationError(
            f"PostgreSQL refuses: {_said(error)}; prepared transactions need "
            "max_prepared_transactions above 0 in the server's settings, and a restart"
        ) from error
    except errors.ReadOnlySqlTransaction as error:
        raise StoreUnavailable(
            f"PostgreSQL is a standby that takes no rows: {_said(error)}"
        ) from error
    except (psycopg.DataError, psycopg.IntegrityError, errors.RaiseException) as error:
        raise RowRejected(f"PostgreSQL refuses a row: {_said(error)}") from error
    except (psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
        raise ConfigurationError(f"PostgreSQL refuses: {_said(error)}") from error
    except (psycopg.OperationalError, errors.IdleInTransactionSessionTimeout) as error:
        raise StoreUnavailable(f"PostgreSQL does not answer: {_said(error)}") from error


def unless_there() -> suppress:
    """Suppress what PostgreSQL says where two make the same table at the same moment."""
    return suppress(errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject)


def _said(error: Exception) -> str:
    # A connection error may quote the address, never the password; one line is enough for people.
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
