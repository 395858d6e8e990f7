"""From Spark to PostgreSQL in batch scope: once, whatever dies."""

import datetime as dt
import decimal
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from support.streams import Files, forget_last_commit, run

from twophase import PostgresSink, TaskSink, fan_out
from twophase.commit.naming import SinkName
from twophase.errors import ConfigurationError, OwnedByAnother, RowRejected
from twophase.postgres.markers import MARKERS
from twophase.postgres.table import PostgresTable
from twophase.spark import row_tasks
from twophase.spark.light import light_rows

QUERY = Path(__file__).parent / "postgres_sink_query.py"
# One that no share of a batch would hold.
HEAVY = "repeat('x', 20000)"


class Table:
    """A table with a sink of its own, and what a reader sees."""

    def __init__(self, url, columns):
        self.url = url
        self.name, self.sink_id = f"sink_{uuid4().hex[:12]}", f"sink-{uuid4().hex[:12]}"
        self.ask(f"CREATE TABLE {self.name} ({columns})")

    def ask(self, query, values=None):
        with psycopg.connect(self.url) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def sink(self, **more):
        """A sink as a new driver makes it."""
        return PostgresSink(self.url, self.name, sink_id=self.sink_id, **more)

    def rows(self, what="*"):
        return sorted(self.ask(f"SELECT {what} FROM {self.name}"))

    def ids(self):
        return [each for (each,) in self.rows("id")]

    def left(self, run_id=None):
        """Staging tables of the sink, or of one run of a job."""
        name = SinkName(self.sink_id, run_id).transactional_id
        prefix = f"twophase_stage_{hashlib.sha256(name.encode()).hexdigest()[:12]}_"
        return self.ask("SELECT relname FROM pg_class WHERE starts_with(relname, %s)", [prefix])

    def markers(self):
        """The batch of each marker of the sink."""
        if self.ask("SELECT to_regclass(%s)", [MARKERS]) == [(None,)]:
            return []
        query = f"SELECT batch FROM {MARKERS} WHERE starts_with(name, %s)"
        return [batch for (batch,) in self.ask(query, [f"twophase.{self.sink_id}"])]


@pytest.fixture
def make_table(postgres_url):
    return lambda columns: Table(postgres_url, columns)


@pytest.fixture
def files(spark, tmp_path):
    """A source of three batches of five ids."""
    found = Files(spark, tmp_path / "source", "id long")
    for number in range(3):
        found.add(*({"id": 10 * number + each} for each in range(5)))
    return found


EXPECTED = [10 * number + each for number in range(3) for each in range(5)]


def test_a_job(spark, make_table):
    """Spark's own types arrive as they are, and a run that is repeated writes nothing."""
    table = make_table(
        "id bigint, price numeric(12, 2), name text, at timestamptz, b bytea, doc jsonb, "
        "numbers int4[], words text[], moments timestamptz[]"
    )
    at = "timestamp_seconds(1700000000 + id)"
    frame = spark.range(0, 1000, 1, 4).selectExpr(
        "id",
        "cast(id / 100 as decimal(12, 2)) AS price",
        "if(id % 10 = 0, null, concat('näme ', id)) AS name",
        f"{at} AS at",
        "cast(cast(id as string) as binary) AS b",
        "to_json(named_struct('id', id)) AS doc",
        "if(id % 7 = 0, null, array(cast(id as int), null)) AS numbers",
        "array('a, \"b\"', cast(id as string)) AS words",
        f"array({at}, null) AS moments",
    )
    sink = table.sink()
    record = sink.write(frame, run_id="monday")
    assert (record.rows, record.path, record.outcome) == (1000, "staged", "committed")
    record = sink.write(frame, run_id="monday")
    assert (record.rows, record.path, record.outcome) == (0, "staged", "skipped")
    start = dt.datetime.fromtimestamp(1700000000, dt.UTC)
    moments = [start + dt.timedelta(seconds=n) for n in range(1000)]
    found = sorted(table.ask(f"SELECT * FROM {table.name}"), key=lambda row: row[0])
    assert found == [
        (
            n,
            decimal.Decimal(n) / 100,
            f"näme {n}" if n % 10 else None,
            moments[n],
            str(n).encode(),
            {"id": n},
            [n, None] if n % 7 else None,
            ['a, "b"', str(n)],
            [moments[n], None],
        )
        for n in range(1000)
    ]
    assert table.left("monday") == []
    assert sink.write(frame.limit(1), run_id="tuesday").rows == 1


def test_a_query(files, make_table, tmp_path):
    """Each row once; a batch that Spark asks for again after a restart is skipped."""
    table, records = make_table("id bigint"), []
    run(files.frame(), table.sink(hooks=[records.append]), tmp_path / "check")
    assert [(each.outcome, each.rows, each.path) for each in records] == [
        ("committed", 5, "staged")
    ] * 3
    assert forget_last_commit(tmp_path / "check") == 2
    files.add({"id": 100})
    run(files.frame(), table.sink(hooks=[records.append]), tmp_path / "check")
    assert [each.outcome for each in records[3:]] == ["skipped", "committed"]
    assert table.ids() == [*EXPECTED, 100]
    assert table.markers() == [3]
    assert table.left() == []


def test_rows_by_key(spark, make_table, tmp_path):
    """A later batch replaces what an earlier one wrote under the same key."""
    table, checkpoint = make_table("id bigint PRIMARY KEY, name text"), tmp_path / "check"
    files = Files(spark, tmp_path / "source", "id long, name string")
    files.add({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    files.add({"id": 2, "name": "c"}, {"id": 3, "name": "d"})
    run(files.frame(), table.sink(key="id"), checkpoint)
    assert table.rows() == [(1, "a"), (2, "c"), (3, "d")]
    files.add({"id": 1, "name": "e"}, {"id": 1, "name": "f"})
    with pytest.raises(Exception, match=r"two rows of the batch have the same key \(id\)"):
        run(files.frame(), table.sink(key="id"), checkpoint)
    assert table.rows() == [(1, "a"), (2, "c"), (3, "d")]
    assert table.markers() == [1]


def test_columns_that_do_not_fit(spark, make_table):
    """They are refused by name before anything is made."""
    table = make_table("id bigint")
    with pytest.raises(ConfigurationError, match="the column name is not in the table"):
        table.sink().write(spark.range(3).selectExpr("id", "'x' AS name"), run_id="r")
    assert (table.rows(), table.markers(), table.left("r")) == ([], [], [])


@pytest.mark.parametrize(
    ("key", "told"),
    [("id", "has no unique index on just that"), ("other", "key names the column other")],
)
def test_a_key_that_is_none(spark, make_table, key, told):
    """It is refused before anything is made."""
    table = make_table("id bigint, other bigint UNIQUE")
    with pytest.raises(ConfigurationError, match=told):
        table.sink(key=key).write(spark.range(3), run_id="r")
    assert (table.rows(), table.markers(), table.left("r")) == ([], [], [])


def test_a_value_that_a_task_refuses(spark, make_table):
    """The job fails with the column's name and nothing is written; the same run can come again."""
    table = make_table("id smallint")
    sink = table.sink()
    with pytest.raises(RowRejected, match="the column id has a value that int2 cannot hold"):
        sink.write(spark.range(32_760, 32_770), run_id="r")
    assert table.rows() == []
    assert sink.write(spark.range(10), run_id="r").rows == 10
    assert table.ids() == list(range(10))
    assert table.left("r") == []


def test_another_query_under_the_same_id(files, make_table, tmp_path):
    """It is refused, and nothing is written twice."""
    table = make_table("id bigint")
    run(files.frame(), table.sink(), tmp_path / "check")
    with pytest.raises(Exception, match=OwnedByAnother.code):
        run(files.frame(), table.sink(), tmp_path / "other")
    assert table.ids() == EXPECTED


@pytest.fixture
def guesses(monkeypatch):
    """How often rows were taken for light ones."""
    found = []
    monkeypatch.setattr(row_tasks, "light_rows", lambda each: found.append(1) or light_rows(each))
    return found


@pytest.mark.parametrize("heavy", ["id = 1234", "id % 2 = 1", "false"])
def test_a_heavy_row_among_light_ones(spark, make_table, guesses, heavy):
    """The job runs again, weighed; what the first one staged is not taken."""
    table = make_table("id bigint, value text")
    value = f"if({heavy}, concat(id, {HEAVY}), cast(id as string)) AS value"
    frame = spark.range(3000, numPartitions=3).selectExpr("id", value)
    assert table.sink().write(frame, run_id="r").rows == 3000
    assert guesses == [1]
    assert table.rows() == sorted((row.id, row.value) for row in frame.collect())
    assert table.left("r") == []


def test_a_stream_guesses_no_more_after_a_heavy_row(spark, make_table, guesses, tmp_path):
    """Batch 0 is light, batch 1 has a heavy row, batch 2 is weighed: all rows arrive once."""
    table = make_table("value text")
    files = Files(spark, tmp_path / "source", "value string")
    for each in ("a", "b" * 20_000, "c"):
        files.add({"value": each}, {"value": f"{each} too"})
    run(files.frame(), table.sink(), tmp_path / "check")
    assert guesses == [1, 1]
    values = [each for (each,) in table.rows()]
    assert values == sorted(
        each for part in ("a", "b" * 20_000, "c") for each in (part, f"{part} too")
    )


def query_of(table, tmp_path, **more):
    """Run the query in a process of its own; return its code and what it said."""
    arguments = {
        "source": str(tmp_path / "source"),
        "checkpoint": str(tmp_path / "check"),
        "url": table.url,
        "table": table.name,
        "sink_id": table.sink_id,
    }
    done = subprocess.run(
        [sys.executable, str(QUERY), json.dumps(arguments | more)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("batch", "when"), [(1, "after"), (1, "before"), (0, "before"), (0, "after"), (2, "after")]
)
def test_the_driver_dies_at_its_commit(make_table, tmp_path, batch, when):
    """Whether the batch was written or not, the next one knows: each row once."""
    table = make_table("id bigint")
    code, said = query_of(table, tmp_path, die=[batch, when])
    assert code == -9, said
    assert table.ids() == EXPECTED[: 5 * (batch + (when == "after"))]
    assert table.left()
    code, said = query_of(table, tmp_path)
    assert code == 0, said
    assert table.ids() == EXPECTED
    assert table.left() == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("files")
def test_an_executor_dies_while_its_task_copies(make_table, tmp_path):
    """Executors in JVMs of their own; one is killed with -9 and its task runs again elsewhere."""
    table, memory = make_table("id bigint"), tmp_path / "killed"
    code, said = query_of(
        table,
        tmp_path,
        master="local-cluster[2,1,1024]",
        kill_executor=str(memory),
        conf={"spark.sql.adaptive.enabled": "false"},
    )
    assert code == 0, said
    assert memory.exists()
    assert table.ids() == EXPECTED
    assert table.left() == []


class Failing:
    """A sink that fails before or after one of its batches, once."""

    def __init__(self, sink, batch, *, after):
        self.sink, self.left, self.after = sink, {batch}, after
        self.sink_id = sink.sink_id

    def __call__(self, frame, batch_id):
        fails = batch_id in self.left
        self.left.discard(batch_id)
        if fails and not self.after:
            raise ValueError("before")
        self.sink(frame, batch_id)
        if fails:
            raise ValueError("after")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("failing", [0, 1], ids=["batch scope", "task scope"])
def test_two_sinks_of_one_query(files, make_table, tmp_path, failing, after):
    """Whichever fails, before or after its commit, both have each row once."""
    tables = [make_table("id bigint"), make_table("id bigint")]
    to_second = PostgresTable(tables[1].url, tables[1].name)
    sinks = [tables[0].sink(), TaskSink(to_second, sink_id=tables[1].sink_id)]
    sinks[failing] = Failing(sinks[failing], 1, after=after)
    with pytest.raises(Exception, match="after" if after else "before"):
        run(files.frame(), fan_out(*sinks), tmp_path / "check")
    run(files.frame(), fan_out(*sinks), tmp_path / "check")
    assert [table.ids() for table in tables] == [EXPECTED, EXPECTED]
