"""From Spark to PostgreSQL in task scope: once, whatever dies."""

import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from support.streams import Files

from twophase import TaskSink
from twophase.errors import ConfigurationError
from twophase.postgres.table import PostgresTable

QUERY = Path(__file__).parent / "postgres_query.py"


class Table:
    """A table, and what a reader sees in it."""

    def __init__(self, url, columns):
        self.url, self.name = url, f"spark_{uuid4().hex[:12]}"
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE TABLE {self.name} ({columns})")

    def rows(self, what="*"):
        """All rows, sorted."""
        with psycopg.connect(self.url) as connection:
            return sorted(connection.execute(f"SELECT {what} FROM {self.name}").fetchall())

    def prepared(self, sink_id):
        """Names of what a sink has prepared and nobody has ended."""
        with psycopg.connect(self.url) as connection:
            found = connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall()
        return [gid for (gid,) in found if gid.startswith(f"twophase.{sink_id}/")]


def test_a_job(spark, postgres_url, tmp_path):
    """Spark's own types arrive as they are, and a run that is repeated writes nothing."""
    table = Table(
        postgres_url, "id bigint, price numeric(12, 2), name text, at timestamptz, b bytea"
    )
    frame = spark.range(0, 1000, 1, 4).selectExpr(
        "id",
        "cast(id / 100 as decimal(12, 2)) AS price",
        "if(id % 10 = 0, null, concat('näme ', id)) AS name",
        "timestamp_seconds(1700000000 + id) AS at",
        "cast(cast(id as string) as binary) AS b",
    )
    sink = TaskSink(
        PostgresTable(postgres_url, table.name),
        sink_id=f"job-{uuid4().hex[:8]}",
        decisions=str(tmp_path / "log"),
    )
    assert sink.write(frame, run_id="monday").rows == 1000
    assert sink.write(frame, run_id="monday").outcome == "skipped"
    found = table.rows("id, price::text, coalesce(name, '-'), extract(epoch from at)::bigint, b")
    assert found == [
        (n, f"{n / 100:.2f}", "-" if n % 10 == 0 else f"näme {n}", 1700000000 + n, str(n).encode())
        for n in range(1000)
    ]


def test_columns_that_do_not_fit(spark, postgres_url, tmp_path):
    """Are refused by name before any task runs."""
    table = Table(postgres_url, "id int")
    sink = TaskSink(
        PostgresTable(postgres_url, table.name), sink_id="s", decisions=str(tmp_path / "log")
    )
    with pytest.raises(ConfigurationError, match="the column name is not in the table"):
        sink.write(spark.range(3).selectExpr("id", "'x' AS name"), run_id="r")
    assert not (tmp_path / "log").exists()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_between_two_commits(spark, postgres_url, tmp_path):
    """The driver dies after the first commit of a batch; the next one commits the rest, once."""
    files = Files(spark, tmp_path / "source", "id long")
    for number in range(2):
        files.add(*({"id": 10 * number + each} for each in range(5)))
    table, sink_id = Table(postgres_url, "id bigint"), f"killed-{uuid4().hex[:8]}"
    arguments = {
        "source": str(tmp_path / "source"),
        "checkpoint": str(tmp_path / "check"),
        "url": postgres_url,
        "table": table.name,
        "sink_id": sink_id,
    }

    def run(**more):
        return subprocess.run(
            [sys.executable, str(QUERY), json.dumps(arguments | more)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    done = run(commits=1)
    assert done.returncode == -9, done.stdout + done.stderr
    assert 0 < len(table.rows()) < 5
    assert table.prepared(sink_id)
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert table.rows() == [(10 * number + each,) for number in range(2) for each in range(5)]
    assert table.prepared(sink_id) == []
