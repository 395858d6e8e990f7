"""One COPY of Arrow rows into a table."""

from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import psycopg
import pyarrow as pa
from psycopg import sql

from twophase.postgres.columns import columns_of
from twophase.postgres.rows import Encoder


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
        context = self._connection.cursor().copy(copy)
        self._begun = (encoder, context, context.__enter__())
        self._begun[2].write(encoder.header())
        return self._begun
