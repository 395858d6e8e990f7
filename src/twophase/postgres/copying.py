"""One COPY of Arrow rows into a table."""

from collections.abc import Generator
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.copy import LibpqWriter
from psycopg.pq.abc import PGconn
from psycopg.waiting import Ready, Wait

from twophase.postgres.columns import columns_of
from twophase.postgres.rows import Encoder

_PIECE_BYTES: Final = 65_536


class FlushedWriter(LibpqWriter):
    """Hands over each piece to the system before libpq gets the next.

    What libpq has to keep, it moves within its memory after every send that took a part of it: with
    a megabyte waiting that took ten times as long as the sends themselves.
    """

    def write(self, data: Buffer) -> None:
        """Send all of it."""
        rest = memoryview(data)
        while rest:
            super().write(rest[:_PIECE_BYTES])
            self.connection.wait(_flushed(self.connection.pgconn))
            rest = rest[_PIECE_BYTES:]


def _flushed(connection: PGconn) -> Generator[Wait, Ready | int, None]:
    while connection.flush():
        yield Wait.W


class Copying:
    """A COPY on a connection, from its first rows until `finish` or `drop`.

    In between nothing else can be asked of the connection. `with` finishes it, or drops it where
    its block fails.
    """

    def __init__(self, connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
        self._connection = connection
        self._table = table
        self._begun: tuple[Encoder, Any, psycopg.Copy] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.drop()

    def write(self, rows: pa.RecordBatch) -> None:
        """Send rows; the server's refusal of one may be told by a later call."""
        encoder, _, copy = self._begun or self._begin(rows.schema)
        copy.write(encoder.rows(rows))

    def finish(self) -> None:
        """Wait until the server has all rows."""
        if self._begun is not None:
            encoder, context, copy = self._begun
            self._begun = None
            copy.write(encoder.trailer())
            context.__exit__(None, None, None)

    def drop(self) -> None:
        """Let the server forget all rows."""
        if self._begun is not None:
            _, context, _ = self._begun
            self._begun = None
            with suppress(psycopg.Error):
                context.__exit__(psycopg.Error, psycopg.Error("dropped"), None)

    def _begin(self, schema: pa.Schema) -> tuple[Encoder, Any, psycopg.Copy]:
        encoder = Encoder(schema, columns_of(self._connection, self._table))
        names = sql.SQL(", ").join(map(sql.Identifier, schema.names))
        copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(self._table, names)
        cursor = self._connection.cursor()
        context = cursor.copy(copy, writer=FlushedWriter(cursor))
        self._begun = (encoder, context, context.__enter__())
        self._begun[2].write(encoder.header())
        return self._begun
