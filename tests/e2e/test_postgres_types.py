"""Every type that Spark's own JDBC writer maps: from Spark to PostgreSQL, as a reader sees it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from support import postgres_types
from support.postgres_types import KINDS, same

from twophase import PostgresSink, TaskSink
from twophase.embedded.postgres import USER, EmbeddedPostgres
from twophase.errors import ConfigurationError, RowRejected
from twophase.postgres.table import PostgresTable

JOB = Path(__file__).parent / "postgres_types_job.py"


def make_table(url, columns):
    """Make a table; return its name."""
    name = f"types_{uuid4().hex[:12]}"
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE {name} ({columns})")
    return name


def rows_of(url, table, what="*"):
    """All rows by id."""
    with psycopg.connect(url) as connection:
        return connection.execute(f"SELECT {what} FROM {table} t ORDER BY id").fetchall()


def append(url, table, folder):  # noqa: ARG001
    """Batch scope."""
    return PostgresSink(url, table, sink_id=table)


def upsert(url, table, folder):  # noqa: ARG001
    """Batch scope, by key."""
    return PostgresSink(url, table, sink_id=table, key="id")


def by_task(url, table, folder):
    """Task scope."""
    return TaskSink(PostgresTable(url, table), sink_id=table, decisions=str(folder / "log"))


@pytest.mark.parametrize("make_sink", [append, upsert, by_task])
def test_all_types(spark, postgres_url, tmp_path, make_sink):
    """Each alone, in arrays with nulls and without anything, in arrays of arrays, and null."""
    table = make_table(postgres_url, postgres_types.columns())
    sink, frame = make_sink(postgres_url, table, tmp_path), postgres_types.frame(spark)
    if make_sink is upsert:
        sink.write(frame.select("id"), run_id="before")
        assert rows_of(postgres_url, table, "id, many0") == [(each, None) for each in range(3)]
    assert sink.write(frame, run_id="once").rows == 3
    wanted = postgres_types.rows()
    for found, given in zip(rows_of(postgres_url, table), wanted, strict=True):
        for name, mine, theirs in zip(frame.columns, found, given, strict=True):
            assert same(mine, theirs), (name, mine, theirs)


NO_BLOCK = [
    (append, "array(array(1), array(1, 2))", "arrays of 1 and 2 elements are in one array"),
    (upsert, "array(array(1), null)", "an array in an array is null"),
    (by_task, "array(array())", "an array of empty arrays"),
]


@pytest.mark.parametrize(("make_sink", "value", "told"), NO_BLOCK)
def test_arrays_that_are_no_block(spark, postgres_url, tmp_path, make_sink, value, told):
    """Are refused by the column's name, and nothing of the batch is written."""
    table = make_table(postgres_url, "id int PRIMARY KEY, a int[]")
    odd = f"if(id = 99, {value}, array(array(1, 2))) AS a"
    frame = spark.range(0, 100, 1, 4).selectExpr("cast(id AS int)", odd)
    frame = frame.selectExpr("id", "cast(a AS array<array<int>>)")
    with pytest.raises(Exception, match=f"the column a .* {told}") as found:
        make_sink(postgres_url, table, tmp_path).write(frame, run_id="once")
    assert RowRejected.code in str(found.value)
    assert rows_of(postgres_url, table) == []


def test_arrays_that_are_too_deep(spark, postgres_url):
    """Are refused by the column's name before anything is written."""
    table = make_table(postgres_url, "id bigint, a int[]")
    frame = spark.range(1).selectExpr("id", f"{'array(' * 7}1{')' * 7} AS a")
    with pytest.raises(ConfigurationError, match=r"the column a is of type .* no type there is"):
        PostgresSink(postgres_url, table, sink_id=table).write(frame, run_id="once")


def beyond():
    """Columns on which Spark's writer fails: arrays of binary, and of local moments with nulls."""
    spark = [kind.spark for kind in KINDS]
    binary, local = spark.index("binary"), spark.index("timestamp_ntz")
    return [f"many{binary}", f"block{binary}", f"many{local}"]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_beside_spark_s_own_writer():
    """The same rows look the same in the table, to the last letter."""
    with EmbeddedPostgres() as server:
        theirs, ours = (make_table(server.url, postgres_types.columns()) for _ in range(2))
        arguments = {"url": server.url, "user": USER, "theirs": theirs, "ours": ours}
        tests = str(Path(__file__).parents[1])
        paths = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, str(JOB), json.dumps(arguments | {"beyond": beyond()})],
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found = rows_of(server.url, theirs, "t::text")
        assert len(found) == 3
        assert rows_of(server.url, ours, "t::text") == found
