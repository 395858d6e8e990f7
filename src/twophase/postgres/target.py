"""The table that the rows are for: appended to it, or by key in the place of what was there."""

from collections.abc import Sequence
from typing import Any, Final

import psycopg
import pyarrow as pa
from psycopg import sql

from twophase.errors import ConfigurationError, RowRejected, StoreUnavailable
from twophase.postgres.columns import check_fit, check_kind, columns_of, table_of
from twophase.postgres.staging import ATTEMPT, Stage

# The columns of each unique index that ON CONFLICT can go by.
_KEYS: Final = """
SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
  AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
WHERE i.indrelid = %s::regclass AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY i.indexrelid
"""


class Target:
    """A table, and the columns that make a key, if rows are to replace those with the same one."""

    def __init__(self, table: str, key: Sequence[str] = ()) -> None:
        self.named = table
        self.table = table_of(table)
        if isinstance(key, str):
            key = (key,)
        self.key = tuple(key)

    def check(self, connection: psycopg.Connection[Any], schema: pa.Schema) -> None:
        """Refuse rows that do not fit, and a key that is none, by name."""
        check_kind(connection, self.table)
        check_fit(self.named, columns_of(connection, self.table), schema)
        missing = [name for name in self.key if name not in schema.names]
        if missing:
            raise ConfigurationError(
                f"key names the column {missing[0]}, and the rows have {', '.join(schema.names)}"
            )
        if not self.key:
            return
        found = connection.execute(_KEYS, [self.table.as_string(connection)]).fetchall()
        if not any(set(columns) == set(self.key) for (columns,) in found):
            names = ", ".join(self.key)
            raise ConfigurationError(
                f"key is {names}, and the table {self.named} has no unique index on just that, by "
                f"which PostgreSQL finds the row to replace; CREATE UNIQUE INDEX ON {self.named} "
                f"({names}), or give another key"
            )

    def move(
        self,
        connection: psycopg.Connection[Any],
        stage: Stage,
        names: Sequence[str],
        attempts: Sequence[int],
        rows: int,
    ) -> None:
        """Bring the rows of these attempts, which must be so many, from a staging table."""
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        source = sql.SQL("FROM {} WHERE {} = ANY ({}::int8[])").format(
            stage.table, sql.Identifier(ATTEMPT), sql.Literal(list(attempts))
        )
        insert = sql.SQL("INSERT INTO {} ({}) SELECT {} {} {}").format(
            self.table, columns, columns, source, self._conflict(names)
        )
        try:
            moved = connection.execute(insert).rowcount
        except psycopg.errors.CardinalityViolation as error:
            raise RowRejected(
                f"two rows of the batch have the same key ({', '.join(self.key)}) and nobody says "
                "which of them is the later one; keep one row for each key in the query"
            ) from error
        if moved == rows:
            return
        # A trigger or rule of the table may take rows out; what counts is what was staged.
        count = sql.SQL("SELECT count(*) {}").format(source)
        (staged,) = connection.execute(count).fetchone() or (0,)
        if staged != rows:
            raise StoreUnavailable(
                f"{staged} of {rows} rows are in the staging table {stage.name}: the server was "
                "restarted, which empties it; nothing is written; start again"
            )

    def _conflict(self, names: Sequence[str]) -> sql.Composable:
        if not self.key:
            return sql.SQL("")
        rest = [sql.Identifier(name) for name in names if name not in self.key]
        sets = [sql.SQL("{0} = excluded.{0}").format(each) for each in rest]
        act = sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(sets)) if sets else None
        return sql.SQL("ON CONFLICT ({}) DO {}").format(
            sql.SQL(", ").join(map(sql.Identifier, self.key)), act or sql.SQL("NOTHING")
        )
