"""What sinks over a scope share: no batch is left out, no attempt waits for one that lost."""

from uuid import uuid4

import psycopg
import pytest
from support.streams import Files, run

from twophase import KafkaSink, PostgresSink, TaskSink
from twophase.errors import ConfigurationError, WrongBatch
from twophase.postgres.table import PostgresTable

# One that no share of a batch would hold.
HEAVY = "repeat('x', 20000)"


@pytest.fixture
def table(postgres_url):
    """A table with a key."""
    name = f"scoped_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE TABLE {name} (id int8 PRIMARY KEY, text text)")
    return name


def ids(url, table):
    """The ids in the table, sorted."""
    with psycopg.connect(url) as connection:
        found = connection.execute(f"SELECT id FROM {table} ORDER BY id").fetchall()
    return [number for (number,) in found]


@pytest.mark.parametrize("scope", ["task", "batch"])
def test_rows_that_are_not_light_do_not_meet_themselves(
    scope, spark, postgres_url, table, tmp_path
):
    """The job runs again, weighed; what its first run has prepared is ended before."""
    if scope == "task":
        sink = TaskSink(
            PostgresTable(postgres_url, table), sink_id="heavy", decisions=str(tmp_path / "log")
        )
    else:
        sink = PostgresSink(postgres_url, table, sink_id=f"heavy-{uuid4().hex[:8]}")
    frame = spark.range(0, 100, 1, 4).selectExpr("id", f"IF(id = 99, {HEAVY}, 'x') AS text")
    assert sink.write(frame, run_id="once").rows == 100
    assert ids(postgres_url, table) == list(range(100))


def to_kafka(kafka, _url):
    """A sink to a topic that is not there."""
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    return KafkaSink(sink_id=f"left-{uuid4().hex[:8]}", topic="nowhere", options=options)


def to_postgres(_kafka, url):
    """A sink to a table that is not there."""
    return PostgresSink(url, "nowhere", sink_id=f"left-{uuid4().hex[:8]}")


@pytest.mark.parametrize("make", [to_kafka, to_postgres])
def test_no_batch_is_left_out(make, spark, kafka, postgres_url, tmp_path):
    """A user who catches an error, be it of a first look, is stopped at the next batch."""
    files = Files(spark, tmp_path / "source", "value string")
    for number in range(2):
        files.add({"value": str(number)})
    sink, said = make(kafka, postgres_url), []

    def careless(frame, batch_id):
        try:
            sink(frame, batch_id)
        except (ConfigurationError, WrongBatch) as error:
            said.append(type(error))

    run(files.frame(), careless, tmp_path / "check")
    assert said == [ConfigurationError, WrongBatch]
