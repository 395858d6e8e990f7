"""BatchScope with a key: rows replace those with the same key, and keys that cannot are refused."""

import pyarrow as pa
import pytest
from support.batch_scope import COLUMNS, SCHEMA, Given, numbered, write

from twophase.commit.effects import Outcome
from twophase.errors import ConfigurationError, RowRejected
from twophase.options import Secret
from twophase.postgres.connection import connected
from twophase.postgres.target import Target


def test_rows_replace_those_with_the_same_key(make_sink):
    """The others are inserted, and a restart skips."""
    sink = make_sink("id bigint PRIMARY KEY, name text, note text DEFAULT 'new'", key="id")
    scope = sink.scope()
    write(scope, 0, (1, "a"), (2, "b"))
    sink.ask(f"UPDATE {sink.table} SET note = 'kept'")
    write(scope, 1, (2, "c"), (3, None), first_try=True)
    expected = [(1, "a", "kept"), (2, "c", "kept"), (3, None, "new")]
    assert sink.rows() == expected
    assert write(sink.scope(), 1, (2, "d")).outcome is Outcome.SKIPPED
    assert sink.rows() == expected


def check(sink, schema=SCHEMA):
    """What the sink asks before its first batch."""
    with connected(Secret(sink.url)) as connection:
        Target(sink.table, sink.key).check(connection, schema)


def test_a_key_of_two_columns(make_sink):
    """In either order; both must be the same."""
    columns = 'id bigint, "odd ""name""" text, value text, UNIQUE ("odd ""name""", id)'
    sink = make_sink(columns, key=("id", 'odd "name"'))
    schema = pa.schema([("id", pa.int64()), ('odd "name"', pa.string()), ("value", pa.string())])
    check(sink, schema)
    scope = sink.scope()
    write(scope, 0, tasks=Given([(1, "a", "x"), (1, "b", "x")], schema=schema))
    again = Given([(1, "a", "y"), (2, "a", "y")], schema=schema)
    write(scope, 1, tasks=again, first_try=True)
    assert sink.rows() == [(1, "a", "y"), (1, "b", "x"), (2, "a", "y")]


def test_all_columns_are_the_key(make_sink):
    """What is there stays, the rest is inserted."""
    sink = make_sink(f"{COLUMNS}, PRIMARY KEY (id, name)", key=("id", "name"))
    scope = sink.scope()
    write(scope, 0, *numbered(1, 2))
    assert write(scope, 1, *numbered(2, 3), first_try=True).rows == 2
    assert sink.rows() == numbered(1, 2, 3)


def test_two_rows_of_a_batch_with_one_key(make_sink):
    """Nobody says which is the later one: refused by the key's name, nothing is written."""
    sink = make_sink("id bigint PRIMARY KEY, name text", key="id")
    with pytest.raises(RowRejected, match=r"two rows of the batch have the same key \(id\)"):
        write(sink.scope(), 0, tasks=Given([(1, "a"), (2, "b")], [(2, "c")]))
    assert sink.rows() == []
    assert sink.marker()[1] == -1


@pytest.mark.parametrize(
    ("columns", "index"),
    [
        (COLUMNS, None),
        (COLUMNS, "INDEX ON {} (id)"),
        (COLUMNS, "UNIQUE INDEX ON {} (id) WHERE id > 0"),
        (COLUMNS, "UNIQUE INDEX ON {} ((id + 1))"),
        (COLUMNS, "UNIQUE INDEX ON {} (id, (id + 1))"),
        (COLUMNS, "UNIQUE INDEX ON {} (id, name)"),
        (f"{COLUMNS}, UNIQUE (id) DEFERRABLE", None),
    ],
    ids=["none", "not unique", "partial", "expression", "and expression", "wider", "deferrable"],
)
def test_a_key_without_an_index(make_sink, columns, index):
    """By which PostgreSQL finds the row to replace: refused with table and key."""
    sink = make_sink(columns, key="id")
    if index:
        sink.ask(f"CREATE {index.format(sink.table)}")
    told = f"key is id, and the table {sink.table} has no unique index .* UNIQUE INDEX ON"
    with pytest.raises(ConfigurationError, match=told):
        check(sink)


def test_a_key_with_an_index(make_sink):
    """Also where the index carries other columns along."""
    sink = make_sink(key="id")
    sink.ask(f"CREATE UNIQUE INDEX ON {sink.table} (id) INCLUDE (name)")
    check(sink)
    write(sink.scope(), 0, (1, "a"))
    write(sink.scope(), 1, (1, "b"))
    assert sink.rows() == [(1, "b")]


def test_a_key_that_is_no_column_of_the_rows(make_sink):
    """It is named, with what the rows have."""
    sink = make_sink("id bigint PRIMARY KEY, name text", key="id")
    schema = pa.schema([("name", pa.string())])
    with pytest.raises(ConfigurationError, match="key names the column id, and the rows have name"):
        check(sink, schema)
