"""Executors in JVMs of their own, harmed after their rows are in PostgreSQL: each row once."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from twophase.options import Secret
from twophase.postgres.columns import table_of
from twophase.postgres.staging import Staging

from .cluster import SparkCluster
from .test_executors import EAGER

JOB = Path(__file__).parent / "postgres_job.py"
ROWS, TASKS = 4_000, 8

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory):
    """A master and three workers."""
    with SparkCluster(tmp_path_factory.mktemp("spark"), 3) as cluster:
        yield cluster


class Job:
    """A job to a new table, and what is found afterwards."""

    def __init__(self, url, folder, scope):
        self.url, self.folder, self.scope = url, folder, scope
        self.sink_id, self.table = f"job-{uuid4().hex[:8]}", f"job_{uuid4().hex[:8]}"
        self.notes = folder / "notes"
        self.notes.mkdir()
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE TABLE {self.table} (id bigint)")

    def run(self, harm, settings):
        """Run it to its end; return what it says."""
        arguments = {
            "url": self.url,
            "table": self.table,
            "sink_id": self.sink_id,
            "scope": self.scope,
            "rows": ROWS,
            "tasks": TASKS,
            "notes": str(self.notes),
            "harm": harm,
            "log": str(self.folder / "log"),
        }
        done = subprocess.run(
            [sys.executable, str(JOB), json.dumps(arguments | settings)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    def attempts(self):
        """How many attempts of each task have brought their rows to the server."""
        return Counter(path.name.split("-")[0] for path in self.notes.glob("*-*"))

    def check(self):
        """Each row is there once, and nothing of what lost is left."""
        with psycopg.connect(self.url) as connection:
            found = connection.execute(f"SELECT id FROM {self.table} ORDER BY id").fetchall()
            gids = connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall()
            stages = Staging(
                Secret(self.url), f"twophase.{self.sink_id}/once", "public", table_of("t")
            )
            left = stages.tables(connection)
        assert [number for (number,) in found] == list(range(ROWS))
        assert not [gid for (gid,) in gids if self.sink_id in gid]
        assert left == []


@pytest.mark.parametrize("scope", ["task", "batch"])
def test_an_executor_is_lost_after_its_rows_are_in_the_store(
    scope, spark_cluster, postgres_url, tmp_path
):
    """Its task runs again, and so does the stage: the rows that it had shuffled are gone too."""
    job = Job(postgres_url, tmp_path, scope)
    said = job.run("kill", spark_cluster.settings())
    assert said["rows"] == ROWS
    assert said["tries"] > 1
    assert job.attempts()["1"] > 1
    job.check()


@pytest.mark.parametrize("scope", ["task", "batch"])
def test_speculation(scope, spark_cluster, postgres_url, tmp_path):
    """Two attempts of one task bring their rows to the server; those of one are taken."""
    job = Job(postgres_url, tmp_path, scope)
    said = job.run("slow", spark_cluster.settings(**EAGER))
    assert said["rows"] == ROWS
    assert job.attempts()["0"] > 1
    job.check()
