"""PostgresTable in task scope whose driver or server is killed with -9 at each step: rows once."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from support import postgres
from support.task_loop import Loop, expected

from twophase.commit.attempts import prefix_of
from twophase.commit.naming import SinkName
from twophase.postgres.table import COMMITS

DRIVER = Path(__file__).parent / "task_loop_driver.py"
# A driver that is killed has this many batches; batch 0 was written by one before it.
BATCHES = 3
# Where the server is killed there is one to write: each case takes its time.
BATCHES_OF_SERVER = 2
DECIDES = "create batch-000000000001-0001"
# What the loop and the store do, at the least once each.
STEPS = {
    "create epoch",
    "own twophase",
    "create batch-000000000001-0000",
    "open",
    "begin",
    "BEGIN",
    "write",
    "prepare",
    "confirm",
    DECIDES,
    "commit",
    "create done-000000000001-0001",
    "recover",
    "note",
}


class Table(Loop):
    """A sink with its table, whose drivers are processes."""

    def __init__(self, url, folder):
        self.url = url
        self.table, self.prefix = f"kills_{uuid4().hex[:12]}", prefix_of(SinkName(uuid4().hex[:12]))
        super().__init__(DRIVER, folder, prefix=self.prefix, url=url, table=self.table)
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE TABLE {self.table} (id bigint)")

    def check(self, batches, where):
        """Each row is there once, nothing is prepared, and few notes are kept."""
        with psycopg.connect(self.url) as connection:
            rows = connection.execute(f"SELECT id FROM {self.table} ORDER BY id").fetchall()
            query = "SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, %s)"
            prepared = connection.execute(query, [self.prefix]).fetchall()
            query = f"SELECT count(*) FROM {COMMITS} WHERE starts_with(name, %s)"
            (notes,) = connection.execute(query, [self.prefix]).fetchone()
        assert [each for (each,) in rows] == expected(batches), where
        assert prepared == [], where
        # Those of the last two batches.
        assert notes == len(expected(2)), where


@pytest.fixture
def make_table(server, tmp_path):
    """Make a sink whose batch 0 is written."""
    numbers = itertools.count()

    def make():
        table = Table(server.url, tmp_path / f"table-{next(numbers)}")
        code, said = table.run(1)
        assert code == 0, said
        return table

    return make


def names_of(make_table, batches):
    """The steps of a driver that nothing happens to."""
    names = make_table().steps(batches)
    assert set(names) >= STEPS
    for start in ("INSERT INTO", "PREPARE TRANSACTION", "COMMIT PREPARED", "ROLLBACK PREPARED"):
        assert any(name.startswith(start) for name in names), start
    return names


def driver_dies(table, at, *, after, where):
    """A driver dies at a step; the next one ends well, and writes one batch more."""
    code, said = table.run(BATCHES, at=at, after=after)
    assert code == -9, (where, said)
    code, said = table.run(BATCHES + 1)
    assert code == 0, (where, said)
    table.check(BATCHES + 1, where)


def server_dies(server, table, at, *, after, where):
    """The server is killed while a driver is at a step; drivers are started until one ends well."""
    driver = table.start(BATCHES_OF_SERVER, at=at, after=after, act="ask")
    postgres.server_dies(server, driver, lambda: table.run(BATCHES_OF_SERVER), where)
    # What lost is ended later where the server was away just then.
    code, said = table.run(BATCHES_OF_SERVER + 1)
    assert code == 0, (where, said)
    table.check(BATCHES_OF_SERVER + 1, where)


def test_the_driver_dies_after_the_decision(make_table):
    """Nothing of it is committed; the next driver does that."""
    driver_dies(make_table(), DECIDES, after=True, where=DECIDES)


def test_the_driver_dies_behind_the_record_of_a_loss(server, make_table):
    """The next one believes the record: it asks for nothing of it, and goes on."""
    table = make_table()
    code, said = table.run(BATCHES, at=DECIDES, after=True)
    assert code == -9, said
    with psycopg.connect(server.url, autocommit=True) as connection:
        query = "SELECT gid FROM pg_prepared_xacts WHERE starts_with(gid, %s)"
        for (gid,) in connection.execute(query, [table.prefix]).fetchall():
            connection.execute(f"ROLLBACK PREPARED '{gid}'")
    last = "create lost-000000000001-00001"
    code, said = table.run(BATCHES, at=last, after=True, on_lost="record")
    assert code == -9, said
    code, said = table.run(BATCHES, on_lost="record")
    assert code == 0, said
    steps = json.loads(said.splitlines()[-1])
    again = steps[: steps.index("create done-000000000001-0001")]
    assert "commit" not in again
    assert not [name for name in again if name.startswith("COMMIT PREPARED")]
    with psycopg.connect(server.url) as connection:
        rows = connection.execute(f"SELECT id FROM {table.table} ORDER BY id").fetchall()
    assert [each for (each,) in rows] == sorted({*expected(BATCHES)} - {2, 3})


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_the_driver_dies_at_any_step(make_table):
    """Calls to the store, its statements, and the files of the log, two at a time."""
    names = names_of(make_table, BATCHES)

    def one(case):
        at, after = case
        where = f"{'after' if after else 'before'} {at}: {names[at - 1]}"
        driver_dies(make_table(), at, after=after, where=where)
        return where

    cases = list(itertools.product(range(1, len(names) + 1), (False, True)))
    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(one, cases))) == len(cases)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_the_server_dies_at_a_commit(server, make_table, after):
    """What is prepared outlives it, and so does what is committed."""
    server_dies(server, make_table(), "commit", after=after, where="commit")


@pytest.mark.long
@pytest.mark.timeout(2_400)
def test_the_server_dies_at_any_step(server, make_table):
    """The same steps, one after another: there is one server."""
    names = names_of(make_table, BATCHES_OF_SERVER)
    for at, name in enumerate(names, 1):
        for after in (False, True):
            where = f"{'after' if after else 'before'} {at}: {name}"
            server_dies(server, make_table(), at, after=after, where=where)
