"""The notes of what is committed: there as long as they are needed, and gone with their run."""

from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest

from twophase.attempt import run_attempt
from twophase.commit.attempts import prefix_of
from twophase.commit.effects import Outcome
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.commit.refusals import RUN_OWNER
from twophase.errors import InvalidState
from twophase.log.decisions import DecisionLog
from twophase.postgres.table import COMMITS, PostgresTable
from twophase.task_scope import TaskScope
from twophase.testing import LocalFolder


@pytest.fixture
def table(postgres_url):
    """A table of ids."""
    name = f"notes_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE TABLE {name} (id bigint)")
    return name


class Job:
    """One run of a batch job, driver by driver: two tasks with a row each."""

    def __init__(self, url, table, folder, run_id):
        self.url, self.table = url, table
        self.log = DecisionLog(LocalFolder(folder / run_id))
        self.prefix = prefix_of(SinkName(table, run_id))

    def start(self, kind=PostgresTable):
        """Run it with a sink of this kind; return what became of it."""
        sink = kind(self.url, self.table)
        scope = TaskScope(sink, self.log, self.prefix)
        batch = Batch(RUN_OWNER, 0, "", first_try=False)
        return scope.write(uuid4().hex, batch, TwoTasks(sink)).outcome

    def notes(self):
        """How many notes there are of it."""
        query = f"SELECT count(*) FROM {COMMITS} WHERE starts_with(name, %s)"
        with psycopg.connect(self.url) as connection:
            return connection.execute(query, [self.prefix]).fetchone()[0]

    def rows(self):
        """How many rows there are of all runs."""
        with psycopg.connect(self.url) as connection:
            return connection.execute(f"SELECT count(*) FROM {self.table}").fetchone()[0]


class TwoTasks:
    """The tasks of a batch."""

    def __init__(self, sink):
        self.sink = sink

    def run(self, turn, _anew):
        rows = pa.RecordBatch.from_pydict({"id": [1]})
        return [run_attempt(self.sink, turn.attempt(task, task), [rows]) for task in range(2)]

    def execute(self):
        """There is no state to advance."""


class GoneAtOnce(PostgresTable):
    """Leaves behind what a driver does that is killed after it has noted that all is committed."""

    def recover(self, stale):
        if stale.epoch in stale.ended:
            return
        super().recover(stale)


class GoneHalfway(PostgresTable):
    """Leaves behind what a driver does that is killed after its first commit."""

    def commit(self, committable):
        if committable["name"].endswith("/1/1"):
            raise InvalidState("killed")
        super().commit(committable)


def test_a_job_leaves_no_notes(postgres_url, table, tmp_path):
    """However many runs it has; and none of them is written twice."""
    for run in range(3):
        job = Job(postgres_url, table, tmp_path, f"run-{run}")
        assert job.start() is Outcome.COMMITTED
        assert job.notes() == 0
        assert job.start() is Outcome.SKIPPED
        assert job.rows() == 2 * (run + 1)


def test_a_job_whose_driver_dies_leaves_no_notes(postgres_url, table, tmp_path):
    """They are there as long as they are needed, and the next start of the run takes them away."""
    job = Job(postgres_url, table, tmp_path, "halfway")
    with pytest.raises(InvalidState, match="killed"):
        job.start(GoneHalfway)
    assert (job.notes(), job.rows()) == (1, 1)
    assert job.start() is Outcome.SKIPPED
    assert (job.notes(), job.rows()) == (0, 2)
    job = Job(postgres_url, table, tmp_path, "at-once")
    assert job.start(GoneAtOnce) is Outcome.COMMITTED
    assert job.notes() == 2
    assert job.start() is Outcome.SKIPPED
    assert (job.notes(), job.rows()) == (0, 4)
