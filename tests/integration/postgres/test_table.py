"""PostgresTable on a real server: types as they were, refusals by name, a server killed."""

import datetime as dt
import decimal
import math
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest

from twophase.attempt import run_attempt
from twophase.commit.attempts import Attempt, Stale
from twophase.embedded.postgres import EmbeddedPostgres
from twophase.errors import (
    CommittableLost,
    ConfigurationError,
    InvalidState,
    StoreUnavailable,
)
from twophase.postgres.table import COMMITS, PostgresTable


@pytest.fixture
def make_table(postgres_url):
    """Make a table of these columns; return its name."""

    def make(columns, url=postgres_url):
        name = f"table_{uuid4().hex[:12]}"
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE TABLE {name} ({columns})")
        return name

    return make


def prefix():
    """A sink's prefix."""
    return f"twophase.{uuid4().hex[:8]}//"


def written(url, table, rows, start=None):
    """Write and prepare rows as one task does; return sink and committable."""
    sink = PostgresTable(url, table)
    sink.check(rows.schema)
    return sink, run_attempt(sink, Attempt(start or prefix(), 1, 0, 0, 0), [rows]).committable


def rows_of(url, table):
    """All rows of the table, as Python has them."""
    with psycopg.connect(url) as connection:
        return connection.execute(f"SELECT * FROM {table}").fetchall()


MOMENT = dt.datetime(2026, 11, 16, 12, 30, 59, 123456, tzinfo=dt.UTC)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
COLUMNS = [
    ("int2", pa.int16(), [-32768, 32767, 0]),
    ("int4", pa.int32(), [-(2**31), 2**31 - 1, 0]),
    ("int8", pa.int64(), [-(2**63), 2**63 - 1, 0]),
    ("float4", pa.float32(), [1.5, math.inf, -math.inf]),
    ("float8", pa.float64(), [0.1, -math.inf, 1e308]),
    ("bool", pa.bool_(), [True, False, True]),
    ("text", pa.string(), ["", 'say "hi",\n\\N \\. \r\t', "ünï ✓ 𝄞"]),
    ("varchar(9)", pa.string(), ["a", "NULL", " b "]),
    ("date", pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), MOMENT.date()]),
    (
        "timestamp",
        pa.timestamp("us"),
        [each.replace(tzinfo=None) for each in (MOMENT, MOMENT.replace(year=1900), EPOCH)],
    ),
    (
        "timestamptz",
        pa.timestamp("us", tz="America/New_York"),
        [MOMENT, MOMENT.replace(year=1900), MOMENT.replace(month=7)],
    ),
    (
        "numeric(38, 10)",
        pa.decimal128(38, 10),
        [
            decimal.Decimal("-1234567890123456789.0123456789"),
            decimal.Decimal(0),
            decimal.Decimal(1),
        ],
    ),
    ("bytea", pa.binary(), [b"", b"\x00\xff\\x", bytes(range(256))]),
    ("jsonb", pa.string(), ['{"a": [1, null]}', "[]", '"text"']),
    ("uuid", pa.string(), [str(uuid4()), str(uuid4()), str(uuid4())]),
]


@pytest.mark.parametrize(("kind", "arrow", "values"), COLUMNS, ids=[each[0] for each in COLUMNS])
def test_values_come_back(postgres_url, make_table, kind, arrow, values):
    """As they were, and null is not empty."""
    table = make_table(f"a {kind}")
    rows = pa.RecordBatch.from_arrays([pa.array([*values, None], arrow)], names=["a"])
    sink, committable = written(postgres_url, table, rows)
    sink.commit(committable)
    cast = {"jsonb": f"SELECT a::text FROM {table}", "uuid": f"SELECT a::text FROM {table}"}
    with psycopg.connect(postgres_url) as connection:
        query = cast.get(kind, f"SELECT a FROM {table}")
        found = [each for (each,) in connection.execute(query)]
    assert found[:-1] == values
    assert found[-1] is None


def test_not_a_number(postgres_url, make_table):
    """Is one of the floats."""
    table = make_table("a float8")
    rows = pa.RecordBatch.from_arrays([pa.array([math.nan])], names=["a"])
    sink, committable = written(postgres_url, table, rows)
    sink.commit(committable)
    assert math.isnan(rows_of(postgres_url, table)[0][0])


def test_columns_go_by_name(postgres_url, make_table):
    """Also odd names; and a column that is not given gets its default."""
    table = make_table('b text, "odd ""name""" int, c int DEFAULT 7')
    rows = pa.RecordBatch.from_pydict({'odd "name"': pa.array([1], pa.int32()), "b": ["x"]})
    sink, committable = written(postgres_url, table, rows)
    sink.commit(committable)
    assert rows_of(postgres_url, table) == [("x", 1, 7)]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (pa.string(), "the column a is of type string and int8 in the table .*text, varchar"),
        (pa.list_(pa.int64()), "can be written to nothing yet"),
        (pa.binary(), "can be written to bytea"),
    ],
)
def test_a_column_that_does_not_fit(postgres_url, make_table, kind, told):
    """Is refused by name before anything is written."""
    table = make_table("a int8")
    with pytest.raises(ConfigurationError, match=told):
        PostgresTable(postgres_url, table).check(pa.schema([("a", kind)]))


def test_a_column_or_table_that_is_not_there(postgres_url, make_table):
    """Both are named, with what there is."""
    table = make_table("a int, b int")
    with pytest.raises(ConfigurationError, match=r"the column c is not in the table .* has a, b"):
        PostgresTable(postgres_url, table).check(pa.schema([("c", pa.int32())]))
    with pytest.raises(ConfigurationError, match="nowhere"):
        PostgresTable(postgres_url, "nowhere").check(pa.schema([("c", pa.int32())]))
    with pytest.raises(ConfigurationError, match=r"table is 'a.b.c'; allowed is a name or schema"):
        PostgresTable(postgres_url, "a.b.c")


def test_a_name_that_is_too_long(postgres_url, make_table):
    """Is refused before the server cuts it."""
    sink = PostgresTable(postgres_url, make_table("id bigint"))
    with pytest.raises(ConfigurationError, match="PostgreSQL takes 199; give a shorter sink_id"):
        sink.begin(Attempt("twophase." + "x" * 200 + "//", 1, 0, 0, 0))


def test_what_lost_and_old_notes_are_swept(postgres_url, make_table):
    """Of this sink alone; the notes of the last batches stay."""
    table, mine, other = make_table("id bigint"), prefix(), prefix()
    rows = pa.RecordBatch.from_pydict({"id": [1]})
    sink = PostgresTable(postgres_url, table)
    for start in (mine, other):
        for batch in range(4):
            at = Attempt(start, 1, batch, 0, batch)
            sink.commit(run_attempt(sink, at, [rows]).committable)
            run_attempt(sink, Attempt(start, 1, batch, 0, 10 + batch), [rows])
    sink.recover(Stale(mine, 1, 3))
    with psycopg.connect(postgres_url) as connection:
        gids = [gid for (gid,) in connection.execute("SELECT gid FROM pg_prepared_xacts")]
        notes = [name for (name,) in connection.execute(f"SELECT name FROM {COMMITS}")]
    assert not [gid for gid in gids if gid.startswith(mine)]
    assert len([gid for gid in gids if gid.startswith(other)]) == 4
    assert [name.split("/")[3] for name in notes if name.startswith(mine)] == [
        "0" * 11 + "2",
        "0" * 11 + "3",
    ]
    sink.recover(Stale(other, 1, 3))


def test_a_server_that_is_killed_keeps_what_was_prepared(make_table):
    """And what was committed; meanwhile every call says that trying again may help."""
    with EmbeddedPostgres() as server:
        table = make_table("id bigint", server.url)
        rows = pa.RecordBatch.from_pydict({"id": [1, 2]})
        sink, first = written(server.url, table, rows)
        _, second = written(server.url, table, rows)
        sink.commit(first)
        server.kill()
        for act in (lambda: sink.commit(second), lambda: sink.confirm([second])):
            with pytest.raises(StoreUnavailable, match="PostgreSQL does not answer"):
                act()
        server.start()
        sink.confirm([second])
        sink.commit(first)
        assert len(rows_of(server.url, table)) == 2
        sink.commit(second)
        assert len(rows_of(server.url, table)) == 4


def test_a_server_without_prepared_transactions(make_table):
    """Is told which setting it lacks, and nothing is written."""
    with EmbeddedPostgres(max_prepared_transactions="0") as server:
        table = make_table("id bigint", server.url)
        with pytest.raises(ConfigurationError, match="need max_prepared_transactions above 0"):
            written(server.url, table, pa.RecordBatch.from_pydict({"id": [1]}))
        assert rows_of(server.url, table) == []


def test_what_somebody_rolled_back_is_lost(postgres_url, make_table):
    """It is seen before the decision, and told after it."""
    table = make_table("id bigint")
    sink, committable = written(postgres_url, table, pa.RecordBatch.from_pydict({"id": [1]}))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"ROLLBACK PREPARED '{committable['name']}'")
    with pytest.raises(InvalidState, match="PostgreSQL has dropped what was prepared"):
        sink.confirm([committable])
    with pytest.raises(CommittableLost, match="neither"):
        sink.commit(committable)


def test_the_password_is_in_no_text(caplog):
    """Not in the repr, not in an error, not in a committable."""
    sink = PostgresTable("postgresql://me:canary-7@127.0.0.1:1/nowhere", "orders")
    assert repr(sink) == "<PostgresTable orders>"
    for act in (
        lambda: sink.check(pa.schema([("a", pa.int64())])),
        lambda: sink.commit({"name": "n"}),
        lambda: sink.begin(Attempt(prefix(), 1, 0, 0, 0)),
        lambda: sink.recover(Stale(prefix(), 1, 0)),
    ):
        with pytest.raises(StoreUnavailable, match="PostgreSQL does not answer") as found:
            act()
        assert "canary" not in str(found.value)
    assert "canary" not in caplog.text
