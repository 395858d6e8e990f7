"""A batch-scope sink on a PostgreSQL server, the tasks that it is given, and what a reader sees."""

import hashlib
import itertools
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest

from twophase.commit.recovery import Batch
from twophase.options import Secret
from twophase.postgres.batch_scope import BatchScope, Staged
from twophase.postgres.columns import schema_of
from twophase.postgres.connection import connected
from twophase.postgres.markers import MARKERS
from twophase.postgres.target import Target

ATTEMPTS = itertools.count(100)
COLUMNS = "id bigint, name text"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Given:
    """Tasks that stage the rows they are given, one list for each."""

    def __init__(self, *tasks, schema=SCHEMA, first=None, then=None):
        self.tasks, self.schema = tasks, schema
        self.first, self.then = first, then
        self.ran = self.executed = 0

    def run(self, stage):
        self.ran += 1
        if self.first is not None:
            self.first(stage)
        staged = []
        for task, rows in enumerate(self.tasks):
            attempt = next(ATTEMPTS)
            staged.append(Staged(task, attempt, stage.fill(attempt, [self.batch(rows)])))
        if self.then is not None:
            self.then(stage)
        return staged

    def execute(self):
        self.executed += 1

    def batch(self, rows):
        return pa.RecordBatch.from_pylist(
            [dict(zip(self.schema.names, row, strict=True)) for row in rows], self.schema
        )


class Sink:
    """A sink with a table of its own, and what a reader sees."""

    def __init__(self, url, columns=COLUMNS, key=()):
        self.url, self.key = url, key
        self.table, self.name = f"scope_{uuid4().hex[:12]}", f"twophase.{uuid4().hex[:12]}"
        self.ask(f"CREATE TABLE {self.table} ({columns})")

    def ask(self, query, values=None):
        """Execute something and return its rows."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def scope(self, **more):
        """A driver that has just started."""
        target = more.pop("target", None) or Target(self.table, self.key)
        with connected(Secret(self.url)) as connection:
            schema = schema_of(connection, target.table)
        return BatchScope(Secret(self.url), target, schema, self.name, **more)

    def rows(self):
        return sorted(self.ask(f"SELECT * FROM {self.table}"))

    def marker(self):
        """Owner, batch, offsets, rows and epoch; None where there is no row."""
        if self.ask("SELECT to_regclass(%s)", [MARKERS]) == [(None,)]:
            return None
        query = f"SELECT owner, batch, offsets, rows, epoch FROM {MARKERS} WHERE name = %s"
        found = self.ask(query, [self.name])
        return found[0] if found else None

    @property
    def prefix(self):
        """How the names of its staging tables begin."""
        return f"twophase_stage_{hashlib.sha256(self.name.encode()).hexdigest()[:12]}_"

    def stages(self):
        query = "SELECT relname::text FROM pg_class WHERE starts_with(relname, %s) ORDER BY relname"
        return [name for (name,) in self.ask(query, [self.prefix])]


def batch(number, owner="query", *, offsets=None, first_try=False):
    """A batch of a query that is started again, unless it is the first try."""
    return Batch(owner, number, offsets or f"hash-{number}", first_try)


def write(scope, number, *rows, owner="query", run="run", **more):
    """Write one batch in one task."""
    tasks = more.pop("tasks", None) or Given(rows)
    return scope.write(run, batch(number, owner, **more), tasks)


def numbered(*ids):
    return [(each, f"name {each}") for each in ids]


def offered(error):
    """The statements that an error offers, by the words before each."""
    lines = error.message.splitlines()
    pairs = itertools.pairwise(lines)
    return {
        before.rpartition(";")[2].strip(): line.strip()
        for before, line in pairs
        if line.startswith("  INSERT")
    }


def refused(sink, kind, number, **more):
    """The error with which a start is refused, which changes nothing."""
    before = (sink.marker(), sink.rows(), sink.stages())
    tasks = Given(numbered(9))
    with pytest.raises(kind) as found:
        write(sink.scope(), number, tasks=tasks, **more)
    assert (tasks.ran, tasks.executed) == (0, 0)
    assert (sink.marker(), sink.rows(), sink.stages()) == before
    assert found.value.ids["sink"] == sink.name
    return found.value
