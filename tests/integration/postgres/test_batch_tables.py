"""BatchScope and the table: its triggers, constraints and schema, and its server's settings."""

from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo
from support.batch_scope import Given, numbered, offered, refused, write

from twophase.commit.effects import Outcome
from twophase.embedded.postgres import EmbeddedPostgres
from twophase.errors import ConfigurationError, MarkerMissing, RowRejected, TwoPhaseError


def test_a_column_with_the_name_of_the_attempts(make_sink):
    """It is the sink's own: refused, and no table is made."""
    sink = make_sink("twophase_attempt bigint")
    schema = pa.schema([("twophase_attempt", pa.int64())])
    with pytest.raises(ConfigurationError, match="rename it"):
        write(sink.scope(), 0, tasks=Given([(1,)], schema=schema))
    assert sink.stages() == []


def add_trigger(sink, body, when="BEFORE INSERT", each="ROW"):
    """Let the table do this for each row, or once for a statement."""
    sink.ask(
        f"CREATE FUNCTION {sink.table}_f() RETURNS trigger LANGUAGE plpgsql AS $$ "
        f"BEGIN {body} END $$"
    )
    sink.ask(
        f"CREATE TRIGGER t {when} ON {sink.table} FOR EACH {each} EXECUTE FUNCTION {sink.table}_f()"
    )


def test_a_trigger_that_takes_rows_out(sink):
    """What counts is what was staged: the batch is written, without them."""
    add_trigger(sink, "IF NEW.id % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW;")
    ended = write(sink.scope(), 0, *numbered(1, 2, 3))
    assert (ended.outcome, ended.rows) == (Outcome.COMMITTED, 3)
    assert sink.rows() == numbered(1, 3)
    assert write(sink.scope(), 0, *numbered(1, 2, 3)).outcome is Outcome.SKIPPED


@pytest.mark.parametrize("what", ["DATABASE postgres", "ROLE CURRENT_USER"])
@pytest.mark.parametrize(("asked", "then"), [("off", "on"), ("local", "local")])
def test_a_commit_that_the_server_only_promises(make_sink, weak_server, what, asked, then):
    """It is never relied on; what asks for more stays as it is."""
    sink = make_sink(url=weak_server.url)
    sink.ask("CREATE TABLE IF NOT EXISTS noted (what text); TRUNCATE noted")
    sink.ask(f"ALTER {what} SET synchronous_commit = {asked}")
    add_trigger(
        sink,
        "INSERT INTO noted VALUES (current_setting('synchronous_commit')); RETURN NULL;",
        when="AFTER INSERT",
        each="STATEMENT",
    )
    assert sink.ask("SHOW synchronous_commit") == [(asked,)]
    write(sink.scope(), 0, *numbered(1))
    assert sink.ask("SELECT what FROM noted") == [(then,)]
    sink.ask(f"ALTER {what} RESET synchronous_commit")


@pytest.fixture(scope="module")
def weak_server():
    """A server whose settings the test may change."""
    with EmbeddedPostgres() as found:
        yield found


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("id bigint, name text NOT NULL", "null value in column"),
        ("id bigint UNIQUE, name text", "duplicate key value violates unique"),
        ("id bigint CHECK (id < 2), name text", "violates check constraint"),
    ],
)
def test_a_row_that_the_table_refuses(make_sink, columns, told):
    """Nothing of the batch is written, the marker is not moved, and it is so again."""
    sink = make_sink(columns)
    for _ in range(2):
        with pytest.raises(RowRejected, match=told):
            write(sink.scope(), 0, (1, "a"), (2, "b"), (2, None))
        assert sink.rows() == []
        assert sink.marker()[1] == -1


def test_a_trigger_that_refuses_a_row(sink):
    """What it says is told, and nothing is written."""
    add_trigger(sink, "IF NEW.id = 2 THEN RAISE EXCEPTION 'not today'; END IF; RETURN NEW;")
    with pytest.raises(TwoPhaseError, match="not today"):
        write(sink.scope(), 0, *numbered(1, 2))
    assert sink.rows() == []
    assert sink.marker()[1] == -1


def test_a_trigger_that_rejects(sink):
    """What it says is told as what it is: a row that no retry can write."""
    add_trigger(sink, "RAISE EXCEPTION 'not today';")
    with pytest.raises(RowRejected, match="not today"):
        write(sink.scope(), 0, *numbered(1))


@pytest.fixture
def odd_sink(make_sink, postgres_url):
    """In a schema with an odd name, which is the connection's own."""
    schema = f"Odd name {uuid4().hex[:8]}"
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
    escaped = schema.replace(" ", "\\ ")
    return make_sink(url=make_conninfo(postgres_url, options=f'-csearch_path="{escaped}"'))


def test_a_schema_with_an_odd_name(odd_sink):
    """The sink's own tables are made and dropped there."""
    assert write(odd_sink.scope(), 0, *numbered(1)).outcome is Outcome.COMMITTED
    assert odd_sink.rows() == numbered(1)
    assert odd_sink.stages() == []


def test_a_refusal_in_a_schema_with_an_odd_name(odd_sink):
    """What it offers can be executed as it is."""
    error = refused(odd_sink, MarkerMissing, 5)
    odd_sink.ask(offered(error)["to skip it:"])
    assert write(odd_sink.scope(), 5, *numbered(5)).outcome is Outcome.SKIPPED
