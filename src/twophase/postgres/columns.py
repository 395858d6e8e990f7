"""The columns of a table, and whether rows fit them."""

from collections.abc import Sequence
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql

from twophase.errors import ConfigurationError
from twophase.postgres.rows import allowed_for

_COLUMNS = """
SELECT a.attname, CASE WHEN a.attgenerated <> '' OR a.attidentity = 'a' THEN 'generated'
  WHEN t.typtype = 'e' THEN 'enum' WHEN e.oid IS NOT NULL AND t.typlen = -1
  THEN e.typname || '[]' ELSE coalesce(b.typname, t.typname) END
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON b.oid = t.typbasetype LEFT JOIN pg_type e ON e.oid = t.typelem
WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


_DECLARED = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
"""


# The table itself, or all tables that it is made of.
_KINDS = """
SELECT c.relname, c.relkind::text, c.relpersistence::text FROM pg_class c
WHERE c.oid = %(table)s::regclass
  OR c.oid IN (SELECT relid FROM pg_partition_tree(%(table)s::regclass))
"""


_SCHEMA = """
SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = %s::regclass
"""


def table_of(table: str) -> sql.Identifier:
    """Return the table that a user names: "name" or "schema.name"."""
    parts = table.split(".")
    if not all(parts) or len(parts) > 2:  # noqa: PLR2004
        raise ConfigurationError(f"table is {table!r}; allowed is a name or schema.name")
    return sql.Identifier(*parts)


def schema_of(connection: psycopg.Connection[Any], table: sql.Identifier) -> str:
    """Return the schema that the table is in."""
    ((schema,),) = connection.execute(_SCHEMA, [table.as_string(connection)]).fetchall()
    return str(schema)


def columns_of(connection: psycopg.Connection[Any], table: sql.Identifier) -> dict[str, str]:
    """Return the type of each column; that of a domain is the one that it is made of."""
    return dict(connection.execute(_COLUMNS, [table.as_string(connection)]).fetchall())


def declared_in(
    connection: psycopg.Connection[Any], table: sql.Identifier, names: Sequence[str]
) -> sql.Composable:
    """Return the declaration of these columns, in order, as the table has them."""
    found = dict(connection.execute(_DECLARED, [table.as_string(connection)]).fetchall())
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(found[name])) for name in names
    )


def check_kind(connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
    """Refuse a table for which nothing can be promised."""
    found = connection.execute(_KINDS, {"table": table.as_string(connection)}).fetchall()
    for name, kind, persistence in found:
        if kind == "f":
            raise ConfigurationError(
                f"{name} is a foreign table: what is written to another server is committed there "
                "before it is committed here, and could be doubled; write to the table itself"
            )
        if persistence == "u":
            raise ConfigurationError(
                f"{name} is an unlogged table: the server empties it when it is killed, and nobody "
                f"would write its rows again; ALTER TABLE {name} SET LOGGED"
            )


def check_fit(table: str, columns: dict[str, str], schema: pa.Schema) -> None:
    """Compare rows with the table's columns, each by name and type; refuse what does not fit."""
    for name, kind in zip(schema.names, schema.types, strict=True):
        if name not in columns:
            raise ConfigurationError(
                f"the column {name} is not in the table {table}, which has "
                f"{', '.join(columns)}; leave it out, or add it to the table"
            )
        allowed = allowed_for(kind)
        if columns[name] not in allowed:
            raise ConfigurationError(
                f"the column {name} is of type {kind} and {columns[name]} in the table {table}; "
                f"such a column can be written to {', '.join(allowed) or 'no type there is'}; cast "
                "it in the query, or change the table"
            )
    twice = {name for name in schema.names if schema.names.count(name) > 1}
    if twice:
        raise ConfigurationError(f"two columns have the name {min(twice)}; rename one")
