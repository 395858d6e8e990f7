"""PostgresTable on a real server: types as they were, refusals by name, a server killed."""

import datetime as dt
import decimal
import math
from functools import reduce
from uuid import UUID, uuid4

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import sql
from psycopg.conninfo import make_conninfo
from support.waiting import wait_until

from twophase.attempt import run_attempt
from twophase.commit.attempts import Attempt, Stale
from twophase.embedded.postgres import EmbeddedPostgres
from twophase.errors import (
    AccessDenied,
    CommittableLost,
    ConfigurationError,
    InvalidState,
    RowRejected,
    StoreUnavailable,
)
from twophase.postgres.arrays import innermost
from twophase.postgres.copying import Copying
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
    ("interval", pa.duration("us"), [dt.timedelta(0), dt.timedelta(-5, 3, 7), dt.timedelta(900)]),
    ("bool[]", pa.list_(pa.bool_()), [[True, None], [], [False]]),
    ("int2[]", pa.list_(pa.int16()), [[-32768, None, 32767], [], [0]]),
    ("int4[]", pa.list_(pa.int32()), [[1, None, -(2**31)], [], [0]]),
    ("int8[]", pa.list_(pa.int64()), [[1, None, 2**63 - 1], [], [0]]),
    ("float4[]", pa.list_(pa.float32()), [[1.5, None, math.inf], [], [0.0]]),
    ("float8[]", pa.list_(pa.float64()), [[0.1, None, -math.inf], [], [0.0]]),
    ("text[]", pa.list_(pa.string()), [["", None, 'a "b", {c}\\'], [], ["NULL"]]),
    ("bytea[]", pa.list_(pa.binary()), [[b"", None, b"\x00"], [], [b"\xff"]]),
    ("date[]", pa.list_(pa.date32()), [[dt.date(1, 1, 1), None], [], [MOMENT.date()]]),
    (
        "numeric(12, 2)[]",
        pa.list_(pa.decimal128(12, 2)),
        [[decimal.Decimal("-1.25"), None], [], [decimal.Decimal("9999999999.99")]],
    ),
    (
        "timestamp[]",
        pa.list_(pa.timestamp("us")),
        [[MOMENT.replace(tzinfo=None), None], [], [EPOCH.replace(tzinfo=None)]],
    ),
    (
        "timestamptz[]",
        pa.list_(pa.timestamp("us", tz="America/New_York")),
        [[MOMENT, None, MOMENT.replace(year=1900)], [], [EPOCH]],
    ),
    ("varchar(3)[]", pa.list_(pa.string()), [["abc", None, ""], [], ["ü"]]),
    ("char(2)[]", pa.list_(pa.string()), [["ab", None], [], ["  "]]),
    ("json[]", pa.list_(pa.string()), [["[1]", None], [], ["2"]]),
    ("jsonb[]", pa.list_(pa.string()), [['{"a": 1}', None], [], ["[]"]]),
    ("uuid[]", pa.list_(pa.string()), [[str(UUID(int=7)), None], [], [str(UUID(int=2**128 - 1))]]),
    ("interval[]", pa.list_(pa.duration("us")), [[dt.timedelta(-5, 3, 7), None], [], []]),
    (
        "int4[][]",
        pa.list_(pa.list_(pa.int32())),
        [[[1, None, 3], [4, 5, 6]], [], [[-(2**31)]]],
    ),
    (
        "text[]",
        pa.list_(pa.list_(pa.list_(pa.string()))),
        [[[["", None], ["{", "}"]]], [], [[["a"]], [["b"]]]],
    ),
    (
        "timestamptz[]",
        pa.list_(pa.list_(pa.timestamp("us", tz="America/New_York"))),
        [[[MOMENT, None]], [], [[EPOCH], [MOMENT]]],
    ),
]
# What psycopg would make of these is not what was written.
SHOWN = {
    "jsonb": "a::text",
    "uuid": "a::text",
    "json[]": "a::text[]",
    "jsonb[]": "a::text[]",
    "uuid[]": "a::text[]",
}

NEW_YORK = pa.timestamp("us", tz="America/New_York")
CONVERTED = [
    ("int2", pa.int8(), -128, -128),
    ("int2", pa.int64(), 32767, 32767),
    ("int8", pa.int32(), 7, 7),
    ("numeric", pa.int64(), -(2**63), decimal.Decimal(-(2**63))),
    ("numeric(10, 1)", pa.decimal128(38, 18), decimal.Decimal("1.25"), decimal.Decimal("1.3")),
    ("float8", pa.int64(), 2**53, float(2**53)),
    ("float8", pa.decimal128(12, 2), decimal.Decimal("1.25"), 1.25),
    ("float4", pa.float64(), 0.1, 0.1),
    ("float4[]", pa.list_(pa.float64()), [0.0, None, math.inf], [0.0, None, math.inf]),
    ("numeric", pa.decimal128(5, -2), decimal.Decimal(-1234500), decimal.Decimal(-1234500)),
    ("int2[]", pa.list_(pa.list_(pa.int64())), [[1, None]], [[1, None]]),
    (
        "int8[]",
        reduce(lambda kind, _: pa.list_(kind), range(6), pa.int8()),
        [[[[[[1, 2]]]]]],
        [[[[[[1, 2]]]]]],
    ),
    ("timestamp[]", pa.list_(pa.date32()), [dt.date(2026, 1, 2)], [dt.datetime(2026, 1, 2)]),  # noqa: DTZ001
    ("char(3)", pa.string(), "a", "a  "),
    ("json", pa.string(), '{"a":  1}', {"a": 1}),
    ("mood", pa.string(), "fine", "fine"),
    ("small", pa.int64(), 5, 5),
    ("timestamp", pa.date32(), dt.date(2026, 1, 2), dt.datetime(2026, 1, 2)),  # noqa: DTZ001
    # As the query's own cast from TIMESTAMP to TIMESTAMP_NTZ: the clock on its session's wall.
    ("timestamp", NEW_YORK, MOMENT, dt.datetime(2026, 11, 16, 7, 30, 59, 123456)),  # noqa: DTZ001
    (
        "timestamp[]",
        pa.list_(NEW_YORK),
        [MOMENT, None],
        [dt.datetime(2026, 11, 16, 7, 30, 59, 123456), None],  # noqa: DTZ001
    ),
]
UNFIT = [
    ("float4", pa.float64(), 1e300, "the column a has a value that float4 cannot hold"),
    ("float4[]", pa.list_(pa.float64()), [1.0, 1e-300], "float4.. cannot hold"),
    ("timestamptz", NEW_YORK, dt.timedelta(days=-2_500_000), "a moment is before 4713 BC"),
    ("timestamp", NEW_YORK, dt.timedelta(days=-2_500_000), "a moment is before 4713 BC"),
    ("timestamptz[]", pa.list_(NEW_YORK), [dt.timedelta(-2_500_000)], "before 4713 BC"),
    ("timestamptz[]", pa.list_(pa.list_(NEW_YORK)), [[dt.timedelta(-2_500_000)]], "before 4713 BC"),
    ("int4[]", pa.list_(pa.list_(pa.int32())), [[1], [2, 3]], "column a .* arrays of 1 and 2 elem"),
    ("int4[]", pa.list_(pa.list_(pa.int32())), [[1], None], "column a .* in an array is null"),
    ("int4[]", pa.list_(pa.list_(pa.int32())), [[], []], "column a .* array of empty arrays"),
    (
        "int2[]",
        pa.list_(pa.list_(pa.int32())),
        [[32768]],
        "the column a has a value that int2.. ca",
    ),
    ("varchar(3)[]", pa.list_(pa.string()), ["four"], "PostgreSQL refuses a row: value too long"),
    ("uuid", pa.string(), "", "the column a has a value that uuid cannot hold"),
    ("int2", pa.int64(), 32768, "the column a has a value that int2 cannot hold"),
    ("float8", pa.int64(), 2**53 + 1, "the column a has a value that float8 cannot hold"),
    ("uuid", pa.string(), "no uuid", "the column a has a value that uuid cannot hold"),
    ("varchar(3)", pa.string(), "four", "PostgreSQL refuses a row: value too long"),
    ("numeric(3, 1)", pa.int64(), 1000, "PostgreSQL refuses a row: numeric field overflow"),
    ("jsonb", pa.string(), "{", "PostgreSQL refuses a row: invalid input syntax for type json"),
    ("mood", pa.string(), "sad", "PostgreSQL refuses a row: invalid input value for enum"),
    ("small", pa.int64(), 10, "PostgreSQL refuses a row: value for domain small violates"),
    ("int4 NOT NULL", pa.int32(), None, "PostgreSQL refuses a row: null value in column"),
    ("text", pa.string(), "a\x00b", "PostgreSQL refuses a row: invalid byte sequence"),
]


@pytest.mark.parametrize(("kind", "arrow", "values"), COLUMNS, ids=[each[0] for each in COLUMNS])
def test_values_come_back(postgres_url, make_table, kind, arrow, values):
    """As they were, and null is not empty."""
    table = make_table(f"a {kind}")
    rows = pa.RecordBatch.from_arrays([pa.array([*values, None], arrow)], names=["a"])
    sink, committable = written(postgres_url, table, rows)
    sink.commit(committable)
    with psycopg.connect(postgres_url) as connection:
        query = f"SELECT {SHOWN.get(kind, 'a')} FROM {table}"
        found = [each for (each,) in connection.execute(query)]
    assert found[:-1] == values
    assert found[-1] is None


@pytest.fixture(scope="module")
def own_types(postgres_url):
    """An enum and a domain."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP TYPE IF EXISTS mood; DROP DOMAIN IF EXISTS small")
        connection.execute("CREATE TYPE mood AS ENUM ('fine', 'bad')")
        connection.execute("CREATE DOMAIN small AS int4 CHECK (value < 10)")


@pytest.mark.usefixtures("own_types")
@pytest.mark.parametrize(("kind", "arrow", "value", "expected"), CONVERTED)
def test_values_are_converted(postgres_url, make_table, kind, arrow, value, expected):
    """Where nothing is lost, or the table's own precision says so."""
    table = make_table(f"a {kind}")
    rows = pa.RecordBatch.from_arrays([pa.array([value], arrow)], names=["a"])
    sink, committable = written(postgres_url, table, rows)
    sink.commit(committable)
    assert rows_of(postgres_url, table) == [(expected,)]


def in_arrow(value, kind):
    """One value; a moment that Python cannot have is given as a time since 1970."""
    if isinstance(value, list) and pa.types.is_timestamp(innermost(kind)[0]):
        within = in_arrow(value[0], kind.value_type)
        return pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), within)
    if isinstance(value, dt.timedelta):
        return pa.array([value // dt.timedelta(microseconds=1)], pa.int64()).cast(kind)
    return pa.array([value], kind)


@pytest.mark.usefixtures("own_types")
@pytest.mark.parametrize(("kind", "arrow", "value", "told"), UNFIT)
def test_a_value_that_does_not_fit(postgres_url, make_table, kind, arrow, value, told):
    """Is refused, and nothing is written."""
    table = make_table(f"a {kind}")
    rows = pa.RecordBatch.from_arrays([in_arrow(value, arrow)], names=["a"])
    with pytest.raises(RowRejected, match=told):
        written(postgres_url, table, rows)
    assert rows_of(postgres_url, table) == []


@given(
    scale=st.integers(0, 38),
    numbers=st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1, max_size=50),
)
@settings(max_examples=30)
def test_any_decimal(postgres_url, scale, numbers):
    """Arrives digit by digit."""
    with decimal.localcontext(prec=60):
        values = [decimal.Decimal(number).scaleb(-scale) for number in numbers]
    rows = pa.RecordBatch.from_arrays([pa.array(values, pa.decimal128(38, scale))], names=["a"])
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TEMP TABLE any_decimal (a numeric)")
        table = sql.Identifier("any_decimal")
        with Copying(connection, table) as copying:
            copying.write(rows)
        found = [value for (value,) in connection.execute("SELECT a FROM any_decimal")]
        connection.rollback()
    assert found == values


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    values=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=256, max_size=256),
    around=st.lists(st.sampled_from([None, []]), max_size=2),
)
@settings(max_examples=30)
def test_any_block(postgres_url, sizes, values, around):
    """Of any depth, with nulls in it and before it, arrives number by number."""
    given, kind, rest = values[: math.prod(sizes)], pa.int64(), [*sizes]
    while rest:
        size, kind = rest.pop(), pa.list_(kind)
        given = [given[at : at + size] for at in range(0, len(given), size)]
    column = [*around, *given, *around]
    rows = pa.RecordBatch.from_arrays([pa.array(column, kind)], names=["a"])
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TEMP TABLE any_block (a int8[])")
        with Copying(connection, sql.Identifier("any_block")) as copying:
            copying.write(rows)
        found = [value for (value,) in connection.execute("SELECT a FROM any_block")]
        connection.rollback()
    assert found == column


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
        (pa.list_(pa.int64()), r"can be written to int2\[\], int4\[\], int8\[\]"),
        (reduce(lambda kind, _: pa.list_(kind), range(7), pa.int64()), "to no type there is"),
        (pa.map_(pa.int64(), pa.int64()), "can be written to no type there is; cast it"),
        (pa.timestamp("us"), "can be written to timestamp; cast it"),
        (pa.float64(), "can be written to float4, float8; cast it"),
        (pa.binary(), "can be written to bytea"),
    ],
)
def test_a_column_that_does_not_fit(postgres_url, make_table, kind, told):
    """Is refused by name before anything is written."""
    table = make_table("a int8")
    with pytest.raises(ConfigurationError, match=told):
        PostgresTable(postgres_url, table).check(pa.schema([("a", kind)]))


def test_slices(postgres_url, make_table):
    """Arrays that are a part of longer ones are sent as the part."""
    kind = pa.list_(NEW_YORK)
    whole = pa.array([[EPOCH], None, [MOMENT, None], []], kind)
    table = make_table("a timestamp[]")
    rows = pa.RecordBatch.from_arrays([whole.slice(1, 2)], names=["a"])
    sink, committable = written(postgres_url, table, rows)
    sink.commit(committable)
    local = dt.datetime(2026, 11, 16, 7, 30, 59, 123456)  # noqa: DTZ001
    assert rows_of(postgres_url, table) == [(None,), ([local, None],)]


def test_slices_of_blocks(postgres_url, make_table):
    """Also arrays of arrays."""
    whole = pa.array([[[9]], None, [[1], [None]], []], pa.list_(pa.list_(pa.int64())))
    table = make_table("a int8[]")
    rows = pa.RecordBatch.from_arrays([whole.slice(1, 2)], names=["a"])
    sink, committable = written(postgres_url, table, rows)
    sink.commit(committable)
    assert rows_of(postgres_url, table) == [(None,), ([[1], [None]],)]


@pytest.mark.parametrize("encoding", ["LATIN1", "UTF8"])
def test_text_is_text_in_any_encoding(postgres_url, encoding):
    """Whatever the client or the database is set to; what the database cannot hold is refused."""
    name = f"encoded_{uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'"
        )
    url = make_conninfo(postgres_url, dbname=name, client_encoding="latin1")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE t (a text)")
    sink, committable = written(url, "t", pa.RecordBatch.from_pydict({"a": ["é"]}))
    sink.commit(committable)
    with psycopg.connect(url, client_encoding="UTF8") as connection:
        found = connection.execute("SELECT a, char_length(a) FROM t").fetchall()
    assert found == [("é", 1)]
    if encoding == "LATIN1":
        with pytest.raises(RowRejected, match="PostgreSQL refuses a row"):
            written(url, "t", pa.RecordBatch.from_pydict({"a": ["✓"]}))


@pytest.mark.parametrize(
    "column", ["GENERATED ALWAYS AS (1) STORED", "GENERATED ALWAYS AS IDENTITY"]
)
def test_a_column_that_the_server_fills(postgres_url, make_table, column):
    """Is refused before anything is written."""
    table = make_table(f"a int4 {column}, b int4")
    with pytest.raises(ConfigurationError, match="the column a is of type int32 and generated"):
        PostgresTable(postgres_url, table).check(pa.schema([("a", pa.int32())]))


def test_a_table_that_forgets(postgres_url, make_table):
    """Unlogged tables are refused, also as a part of one that is not, and foreign ones."""
    table, parted = make_table("a int"), f"parted_{uuid4().hex[:8]}"
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"ALTER TABLE {table} SET UNLOGGED")
        connection.execute(f"CREATE TABLE {parted} (a int) PARTITION BY RANGE (a)")
        connection.execute(
            f"CREATE UNLOGGED TABLE {parted}_1 PARTITION OF {parted} FOR VALUES FROM (0) TO (9)"
        )
        connection.execute(f"CREATE FOREIGN DATA WRAPPER {table}_w")
        connection.execute(f"CREATE SERVER {table}_s FOREIGN DATA WRAPPER {table}_w")
        connection.execute(f"CREATE FOREIGN TABLE {table}_f (a int) SERVER {table}_s")
    unlogged, foreign = r"is an unlogged table.*SET LOGGED", "is a foreign table"
    for name, told in ((table, unlogged), (parted, unlogged), (f"{table}_f", foreign)):
        with pytest.raises(ConfigurationError, match=told):
            PostgresTable(postgres_url, name).check(pa.schema([("a", pa.int32())]))


def test_an_attempt_does_not_wait_for_ever_for_one_that_lost(postgres_url, make_table, monkeypatch):
    """Where both have prepared a row with the same key, the later one fails and is told why."""
    monkeypatch.setattr("twophase.postgres.table._LOCK_WAIT", "200ms")
    table, start = make_table("id int8 PRIMARY KEY"), prefix()
    rows = pa.RecordBatch.from_pydict({"id": [1]})
    written(postgres_url, table, rows, start)
    sink = PostgresTable(postgres_url, table)
    with pytest.raises(StoreUnavailable, match="lock timeout"):
        run_attempt(sink, Attempt(start, 1, 0, 0, 1), [rows])
    sink.recover(Stale(start, 1, 0))


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


def test_a_connection_that_cannot_begin_is_closed(postgres_url):
    """At once, also while somebody still holds the error."""
    role, name = f"role_{uuid4().hex[:8]}", f"begin {uuid4().hex[:8]}"
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE ROLE {role}")
        connection.execute(f"CREATE SCHEMA {role}; CREATE TABLE {role}.t (id bigint)")
        connection.execute(f"GRANT USAGE ON SCHEMA {role} TO {role}")
    theirs = make_conninfo(postgres_url, options=f"-c role={role}", application_name=name)
    with pytest.raises(AccessDenied, match="permission denied for schema") as found:
        PostgresTable(theirs, f"{role}.t").begin(Attempt(prefix(), 1, 0, 0, 0))
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        wait_until(lambda: connection.execute(query, [name]).fetchone() == (0,), 10)
    assert found.value.code == "TWOPHASE_ACCESS_DENIED"


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


def test_nothing_waits_in_the_client(postgres_url, make_table):
    """A write of many pieces returns when the system has all of it, and the rows come whole."""
    table = make_table("a bytea")
    values = [bytes([number]) * 3_000_000 for number in range(5)]
    rows = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["a"])
    with (
        psycopg.connect(postgres_url) as connection,
        Copying(connection, sql.Identifier(table)) as copying,
    ):
        copying.write(rows)
        assert connection.pgconn.flush() == 0
    assert sorted(value for (value,) in rows_of(postgres_url, table)) == values
