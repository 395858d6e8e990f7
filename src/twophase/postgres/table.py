"""`PostgresTable`: rows appended to a table, one prepared transaction for each task."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg
import pyarrow as pa
from psycopg import sql

from twophase.commit.attempts import Attempt, Stale, name_of
from twophase.errors import (
    CommittableLost,
    ConfigurationError,
    InvalidState,
    StoreUnavailable,
)
from twophase.log.decision import Committable
from twophase.options import Secret
from twophase.postgres.columns import check_fit, check_kind, columns_of, schema_of, table_of
from twophase.postgres.connection import (
    connected,
    open_connection,
    place_of,
    translated,
    unless_there,
)
from twophase.postgres.copying import Copying
from twophase.two_phase import TwoPhaseCommitSink

# Which transactions are committed: PREPARE leaves no trace of itself once it is over.
COMMITS: Final = "twophase_commits"
_NAME_BYTES_MAX: Final = 199
_KEPT_BATCHES: Final = 2
_LOCK_WAIT: Final = "60s"
_BUSY_WAIT_S: Final = 30.0
_POLL_S: Final = 0.01
_BUSY: Final = "is busy"


@dataclass
class _Open:
    """A transaction in the process that began it."""

    name: str
    connection: psycopg.Connection[Any]
    copying: Copying


class PostgresTable(TwoPhaseCommitSink[_Open]):
    """Appends to `table` ("name" or "schema.name") of the database at `url`.

    Columns go by name; those that the DataFrame lacks get their defaults. The server must allow
    prepared transactions (`max_prepared_transactions`), one for each task of a batch and for each
    attempt that lost. In its database a table `twophase_commits` is made.
    """

    def __init__(self, url: str, table: str) -> None:
        self._url = Secret(url)
        place_of(self._url)
        self._table = table_of(table)
        self._named = table
        self._made = False
        self._schema: str | None = None

    def __repr__(self) -> str:
        return f"<PostgresTable {self._named}>"

    def check(self, schema: pa.Schema) -> None:
        """Compare with the table's columns: each by name and type."""
        with connected(self._url) as connection:
            check_kind(connection, self._table)
            columns = columns_of(connection, self._table)
        check_fit(self._named, columns, schema)

    def begin(self, attempt: Attempt) -> _Open:
        """Open a connection and begin."""
        if len(attempt.name) > _NAME_BYTES_MAX:
            raise ConfigurationError(
                f"the name {attempt.name} has {len(attempt.name)} letters and PostgreSQL takes "
                f"{_NAME_BYTES_MAX}; give a shorter sink_id or run_id"
            )
        with translated():
            connection = open_connection(self._url)
            try:
                self._make_commits(connection)
                connection.execute("BEGIN")
                # An attempt that lost may have prepared a row with the same key: only the end of
                # the batch lets go of that, and this attempt must not wait for it.
                connection.execute(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'")
            except BaseException:
                # There is nothing yet that `abort` could be called with.
                connection.close()
                raise
        return _Open(attempt.name, connection, Copying(connection, self._table))

    def write(self, transaction: _Open, rows: pa.RecordBatch) -> None:
        """COPY the rows."""
        with translated():
            transaction.copying.write(rows)

    def prepare(self, transaction: _Open) -> Committable:
        """Prepare, with the note that will say that it is committed."""
        name, connection = transaction.name, transaction.connection
        insert = sql.SQL("INSERT INTO {} (name) VALUES ({})")
        with translated():
            transaction.copying.finish()
            connection.execute(insert.format(self._commits(connection), sql.Literal(name)))
            connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(name)))
        connection.close()
        return {"name": name}

    def commit(self, committable: Committable) -> None:
        """COMMIT PREPARED; where there is none of this name, its note says whether there was."""
        name = committable["name"]
        with connected(self._url) as connection:
            if self._ended(connection, "COMMIT", name):
                return
            noted = connection.execute(
                sql.SQL("SELECT 1 FROM {} WHERE name = {}").format(
                    self._commits(connection), sql.Literal(name)
                )
            ).fetchone()
        if noted is None:
            raise CommittableLost(f"PostgreSQL has neither {name} prepared nor a note of it")

    def abort(self, transaction: _Open) -> None:
        """Close the connection, which rolls back what is not prepared."""
        transaction.copying.drop()
        transaction.connection.close()

    def confirm(self, committables: Sequence[Committable]) -> None:
        """Look for each among the prepared ones."""
        wanted = {each["name"] for each in committables}
        if not wanted:
            return
        with connected(self._url) as connection:
            query = "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
            gone = wanted - {gid for (gid,) in connection.execute(query)}
        if gone:
            raise InvalidState(f"PostgreSQL has dropped what was prepared: {sorted(gone)[:3]}")

    def recover(self, stale: Stale) -> None:
        """Roll back what lost, and forget the notes of batches that are done."""
        # Whoever recovers has committed what was decided of these batches, and said so in the log.
        # A driver of a query that comes to it at the same moment still finds the notes of the last
        # ones; a run of a job has no later batch that would take them away.
        kept = _KEPT_BATCHES if name_of(stale.prefix).run_id is None else 0
        old = Stale(stale.prefix, stale.epoch, stale.batch - kept)
        with connected(self._url) as connection:
            self._make_commits(connection)
            query = (
                "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() "
                "AND starts_with(gid, %s)"
            )
            for (gid,) in connection.execute(query, [stale.prefix]).fetchall():
                if gid in stale:
                    self._ended(connection, "ROLLBACK", gid)
            notes = connection.execute(
                sql.SQL("SELECT name FROM {} WHERE starts_with(name, %s)").format(
                    self._commits(connection)
                ),
                [stale.prefix],
            ).fetchall()
            connection.execute(
                sql.SQL("DELETE FROM {} WHERE name = ANY(%s)").format(self._commits(connection)),
                [[name for (name,) in notes if name in old]],
            )

    @staticmethod
    def _ended(connection: psycopg.Connection[Any], how: str, name: str) -> bool:
        """End a prepared transaction; False where there is none; wait while another ends it."""
        deadline_s = time.monotonic() + _BUSY_WAIT_S
        while True:
            try:
                connection.execute(sql.SQL(f"{how} PREPARED {{}}").format(sql.Literal(name)))
            except psycopg.errors.UndefinedObject:
                return False
            except psycopg.errors.ObjectNotInPrerequisiteState as error:
                if _BUSY not in str(error):
                    raise
                if time.monotonic() > deadline_s:
                    raise StoreUnavailable(f"{name} is busy for {_BUSY_WAIT_S:.0f} s") from error
            else:
                return True
            time.sleep(_POLL_S)

    def _make_commits(self, connection: psycopg.Connection[Any]) -> None:
        if self._made:
            return
        made = "CREATE TABLE IF NOT EXISTS {} (name text PRIMARY KEY)"
        with unless_there():
            connection.execute(sql.SQL(made).format(self._commits(connection)))
        self._made = True

    def _commits(self, connection: psycopg.Connection[Any]) -> sql.Identifier:
        """Return the table of notes; it lies beside the table, under any role and search path."""
        if self._schema is None:
            self._schema = schema_of(connection, self._table)
        return sql.Identifier(self._schema, COMMITS)
