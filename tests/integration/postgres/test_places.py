"""Where a sink's marker and its staging tables lie, whatever schemas, roles and names there are."""

from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from twophase.commit.effects import Outcome
from twophase.commit.recovery import Batch
from twophase.errors import Fenced
from twophase.options import Secret
from twophase.postgres.batch_scope import BatchScope, Staged
from twophase.postgres.columns import schema_of
from twophase.postgres.connection import connected
from twophase.postgres.target import Target

ROWS = pa.RecordBatch.from_pydict({"id": pa.array([1, 2], pa.int64())})


class Tasks:
    """One task with two rows."""

    def __init__(self, rows=ROWS):
        self.rows, self.schema = rows, rows.schema

    def run(self, stage):
        return [Staged(0, 1, stage.fill(1, [self.rows]))]

    def execute(self):
        pass


def written(url, table, name, rows=ROWS, run="run"):
    """Write one batch as a new driver does; return what became of it."""
    target = Target(table)
    with connected(Secret(url)) as connection:
        target.check(connection, rows.schema)
        schema = schema_of(connection, target.table)
    scope = BatchScope(Secret(url), target, schema, name)
    return scope.write(run, Batch("query", 0, "offsets", first_try=False), Tasks(rows)).outcome


def ask(url, query):
    """Run one statement."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(query)
        return found.fetchall() if found.description else []


@pytest.fixture
def role(postgres_url):
    """A user with a schema of its own name, which its search path begins with."""
    name = f"role_{uuid4().hex[:8]}"
    ask(postgres_url, f"CREATE ROLE {name}")
    ask(postgres_url, f"CREATE SCHEMA {name} AUTHORIZATION {name}")
    return name


def test_another_role_finds_the_same_marker(postgres_url, role):
    """The marker lies beside the table, not where the search path begins."""
    table, sink = f"shared_{uuid4().hex[:8]}", f"twophase.{uuid4().hex[:8]}"
    ask(postgres_url, f"CREATE TABLE public.{table} (id int8)")
    assert written(postgres_url, f"public.{table}", sink) is Outcome.COMMITTED
    ask(postgres_url, f"GRANT CREATE ON SCHEMA public TO {role}")
    ask(postgres_url, f"GRANT ALL ON public.{table}, public.twophase_sinks TO {role}")
    theirs = make_conninfo(postgres_url, options=f"-c role={role}")
    assert ask(theirs, "SELECT current_schema()") == [(role,)]
    assert written(theirs, f"public.{table}", sink) is Outcome.SKIPPED
    assert ask(postgres_url, f"SELECT count(*) FROM public.{table}") == [(2,)]


@pytest.mark.parametrize("schema", ["Upper", 'odd "schema"', "100% sure", "public"])
def test_odd_schemas(postgres_url, schema):
    """Their names are quoted wherever they go."""
    table = f"odd_{uuid4().hex[:8]}"
    with psycopg.connect(postgres_url) as connection:
        place = sql.Identifier(schema)
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(place))
        place = sql.Identifier(schema, table)
        connection.execute(sql.SQL("CREATE TABLE {} (id int8)").format(place))
    sink = f"twophase.{uuid4().hex[:8]}"
    named = f"{schema}.{table}"
    assert written(postgres_url, named, sink) is Outcome.COMMITTED
    assert written(postgres_url, named, sink) is Outcome.SKIPPED


def test_odd_columns(postgres_url):
    """Also those that look like a place for a parameter."""
    table, name = f"odd_{uuid4().hex[:8]}", '100%s "sure" {}'
    with psycopg.connect(postgres_url) as connection:
        create = sql.SQL("CREATE TABLE {} ({} int8)")
        connection.execute(create.format(sql.Identifier(table), sql.Identifier(name)))
    rows = pa.RecordBatch.from_pydict({name: pa.array([1], pa.int64())})
    assert written(postgres_url, table, f"twophase.{uuid4().hex}", rows) is Outcome.COMMITTED
    assert ask(postgres_url, f"SELECT * FROM {table}") == [(1,)]


def test_a_fenced_driver_does_not_take_the_sink_back(postgres_url):
    """However often its user calls again; the new owner goes on."""
    table, sink = f"fenced_{uuid4().hex[:8]}", f"twophase.{uuid4().hex[:8]}"
    ask(postgres_url, f"CREATE TABLE {table} (id int8)")
    old = BatchScope(Secret(postgres_url), Target(table), "public", sink)
    new = BatchScope(Secret(postgres_url), Target(table), "public", sink)

    class Overtaken(Tasks):
        """Another driver takes over while the tasks run."""

        def run(self, stage):
            staged = super().run(stage)
            new.write("new", Batch("query", 0, "offsets", first_try=False), Tasks())
            return staged

    first = Batch("query", 0, "offsets", first_try=True)
    with pytest.raises(Fenced):
        old.write("old", first, Overtaken())
    with pytest.raises(Fenced):
        old.write("old", first, Tasks())
    new.write("new", Batch("query", 1, "offsets", first_try=True), Tasks())
    assert ask(postgres_url, f"SELECT count(*) FROM {table}") == [(4,)]
