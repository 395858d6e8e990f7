"""Staging tables: where the tasks of one batch leave their rows, and nobody reads them.

Unlogged, so that the server writes them once and not twice: it empties them when it is killed, and
the driver counts before it believes. One for each try of a batch, named after the driver's epoch,
so that what an older driver's tasks still write goes to a table that nobody looks into. Each row
carries the attempt that wrote it: only those of the attempts that won are taken.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import pyarrow as pa
from psycopg import sql

from twophase.errors import ConfigurationError
from twophase.options import Secret
from twophase.postgres.columns import declared_in
from twophase.postgres.connection import connected
from twophase.postgres.copying import Copying

ATTEMPT: Final = "twophase_attempt"
_PREFIX: Final = "twophase_stage"
_LOCK_WAIT: Final = "500ms"
_FIND: Final = (
    "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relkind = 'r' AND starts_with(c.relname, %s)"
)


@dataclass(frozen=True, slots=True)
class Stage:
    """The staging table of one try of one batch; it goes to the tasks."""

    url: Secret
    schema: str
    name: str

    @property
    def table(self) -> sql.Identifier:
        """The table, wherever it is named."""
        return sql.Identifier(self.schema, self.name)

    def fill(self, attempt: int, batches: Iterable[pa.RecordBatch]) -> int:
        """Copy all rows of an attempt, in one transaction; return how many they are."""
        count = 0
        with (
            connected(self.url) as connection,
            Copying(connection, self.table) as copying,
        ):
            for batch in batches:
                if batch.num_rows:
                    tag = pa.repeat(pa.scalar(attempt, pa.int64()), batch.num_rows)
                    copying.write(batch.append_column(ATTEMPT, tag))
                    count += batch.num_rows
        return count


class Staging:
    """The staging tables of one sink, in the schema of the table that the rows are for."""

    def __init__(self, url: Secret, name: str, schema: str, target: sql.Identifier) -> None:
        self._url = url
        self._schema = schema
        self._target = target
        # The names of tables are short; this part tells one sink's from another's.
        self._prefix = f"{_PREFIX}_{hashlib.sha256(name.encode()).hexdigest()[:12]}_"
        self._named = re.compile(re.escape(self._prefix) + r"(\d+)_(\d+)")

    def make(
        self, connection: psycopg.Connection[Any], epoch: int, batch: int, names: list[str]
    ) -> Stage:
        """Make the table of one try, with the types of the target's columns."""
        if ATTEMPT in names:
            raise ConfigurationError(f"the column {ATTEMPT} is the sink's own name; rename it")
        stage = Stage(self._url, self._schema, f"{self._prefix}{epoch}_{batch}")
        make = "CREATE UNLOGGED TABLE {} ({}, {} int8) WITH (autovacuum_enabled = false)"
        connection.execute(
            sql.SQL(make).format(
                stage.table,
                declared_in(connection, self._target, names),
                sql.Identifier(ATTEMPT),
            )
        )
        return stage

    def tables(self, connection: psycopg.Connection[Any]) -> list[str]:
        """Return the names of all staging tables of the sink."""
        return [
            name for (name,) in connection.execute(_FIND, [self._schema, self._prefix]).fetchall()
        ]

    def sweep(self, connection: psycopg.Connection[Any], epoch: int) -> tuple[str, ...]:
        """Drop the tables of this driver and older ones; return a warning for each that stays.

        An attempt that lost may still be writing to one; the next batch tries again.
        """
        warnings = []
        for table in self.tables(connection):
            found = self._named.fullmatch(table)
            if found is None or int(found[1]) > epoch:
                continue
            drop = sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(self._schema, table))
            try:
                with connection.transaction():
                    connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'")
                    connection.execute(drop)
            except (
                psycopg.errors.LockNotAvailable,
                psycopg.errors.InsufficientPrivilege,
            ) as error:
                warnings.append(f"the staging table {table} stays for now: {error}")
        return tuple(warnings)
