"""Both scopes through a real PgBouncer that gives each transaction another connection."""

import os
import pwd
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from support.waiting import wait_until

from twophase.attempt import run_attempt
from twophase.commit.attempts import prefix_of
from twophase.commit.effects import Outcome
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.embedded import ports
from twophase.embedded.postgres import EmbeddedPostgres
from twophase.log.decisions import DecisionLog
from twophase.options import Secret
from twophase.postgres.batch_scope import BatchScope, Staged
from twophase.postgres.connection import connected
from twophase.postgres.staging import Staging
from twophase.postgres.table import PostgresTable
from twophase.postgres.target import Target
from twophase.task_scope import TaskScope
from twophase.testing import LocalFolder

BOUNCER = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
TASKS = 6
SETTINGS = """\
[databases]
* = host=127.0.0.1 port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
"""

pytestmark = pytest.mark.skipif(
    not Path(BOUNCER).exists(), reason="no PgBouncer is on this machine (apt-get install pgbouncer)"
)


@pytest.fixture(scope="module")
def bounced():
    """How to reach a server by way of a PgBouncer with three connections, which refuses root."""
    with EmbeddedPostgres() as server, tempfile.TemporaryDirectory() as folder:
        found = conninfo_to_dict(server.url)
        (own,) = ports.free_ports(1)
        settings = Path(folder, "settings.ini")
        settings.write_text(SETTINGS.format(port=found["port"], user=found["user"], own=own))
        Path(folder).chmod(0o755)
        nobody = pwd.getpwnam("nobody")
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid} if os.geteuid() == 0 else {}
        command = [BOUNCER, "--quiet", str(settings)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, **user) as bouncer:
            try:
                url = make_conninfo(server.url, port=own)
                wait_until(lambda: answers(url), 30)
                yield url
            finally:
                bouncer.terminate()


def answers(url):
    """Whether a connection can be had."""
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def ask(url, query):
    """Run one statement."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        found = connection.execute(query)
        return found.fetchall() if found.description else []


@pytest.fixture
def table(bounced):
    """A table of ids."""
    name = f"bounced_{uuid4().hex[:12]}"
    ask(bounced, f"CREATE TABLE {name} (id bigint PRIMARY KEY)")
    return name


def rows_of(number, task):
    return pa.RecordBatch.from_pydict(
        {"id": [100 * number + 10 * task + each for each in range(3)]}
    )


EXPECTED = sorted(
    (value,)
    for number in range(3)
    for task in range(TASKS)
    for value in rows_of(number, task)["id"].to_pylist()
)


class BatchTasks:
    """Tasks of batch scope, side by side."""

    schema = pa.schema([("id", pa.int64())])

    def __init__(self, number):
        self.number = number

    def run(self, stage):
        def one(task):
            return Staged(task, task, stage.fill(task, [rows_of(self.number, task)]))

        with ThreadPoolExecutor(TASKS) as pool:
            return list(pool.map(one, range(TASKS)))

    def execute(self):
        """There is no state to advance."""


class TableTasks:
    """Tasks of task scope, side by side."""

    def __init__(self, sink, number):
        self.sink, self.number = sink, number

    def run(self, turn, _anew):
        def one(task):
            return run_attempt(self.sink, turn.attempt(task, task), [rows_of(self.number, task)])

        with ThreadPoolExecutor(TASKS) as pool:
            return list(pool.map(one, range(TASKS)))

    def execute(self):
        """There is no state to advance."""


def test_batch_scope(bounced, table):
    """Three batches, each asked for again by the next driver; and what older ones left is swept."""
    name = f"twophase.{table}"
    staging = Staging(Secret(bounced), name, "public", Target(table).table)
    with connected(Secret(bounced)) as connection:
        for number in range(8):
            staging.make(connection, 1, number, ["id"])
    for number in range(3):
        batch = Batch("query", number, "offsets", first_try=False)
        for outcome in (Outcome.COMMITTED, Outcome.SKIPPED):
            scope = BatchScope(Secret(bounced), Target(table, "id"), "public", name)
            assert scope.write("run", batch, BatchTasks(number)).outcome is outcome
    assert ask(bounced, f"SELECT id FROM {table} ORDER BY id") == EXPECTED
    with connected(Secret(bounced)) as connection:
        assert staging.tables(connection) == []


def test_task_scope(bounced, table, tmp_path):
    """The same, by prepared transactions, which are another connection's to commit."""
    log, prefix = DecisionLog(LocalFolder(tmp_path)), prefix_of(SinkName(table))
    for number in range(3):
        batch = Batch("query", number, "offsets", first_try=False)
        for outcome in (Outcome.COMMITTED, Outcome.SKIPPED):
            sink = PostgresTable(bounced, table)
            scope = TaskScope(sink, log, prefix)
            assert scope.write("run", batch, TableTasks(sink, number)).outcome is outcome
    assert ask(bounced, f"SELECT id FROM {table} ORDER BY id") == EXPECTED
    assert ask(bounced, "SELECT gid FROM pg_prepared_xacts") == []
