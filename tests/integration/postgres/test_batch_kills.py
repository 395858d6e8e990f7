"""BatchScope whose driver or server is killed with -9 at each of its steps: each row once."""

import hashlib
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from support import postgres
from support.program import Program

from twophase.postgres.markers import MARKERS

DRIVER = Path(__file__).parent / "batch_driver.py"
BATCHES, ROWS = 2, 12


class Sink(Program):
    """A sink with its table and checkpoint, whose driver is started again and again."""

    def __init__(self, url, folder):
        self.url = url
        self.table, self.name = f"kills_{uuid4().hex[:12]}", f"twophase.{uuid4().hex[:12]}"
        self.done = folder / self.name
        given = {"url": url, "table": self.table, "name": self.name, "done": str(self.done)}
        super().__init__(DRIVER, given)
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE TABLE {self.table} (id bigint)")

    def run_again(self):
        """Run a driver that is asked for the last batch again, and drops what is left over."""
        self.done.write_text(f"{BATCHES - 1}")
        return self.run()

    def steps(self):
        """Run a driver that nothing happens to; return its steps."""
        code, said = self.run()
        assert code == 0, said
        self.check("undisturbed")
        return json.loads(said)

    def check(self, where):
        """Each row is there once, the marker is at the last batch, nothing is left over."""
        with psycopg.connect(self.url) as connection:
            rows = connection.execute(f"SELECT id FROM {self.table} ORDER BY id").fetchall()
            query = f"SELECT batch, rows FROM {MARKERS} WHERE name = %s"
            marker = connection.execute(query, [self.name]).fetchone()
            prefix = f"twophase_stage_{hashlib.sha256(self.name.encode()).hexdigest()[:12]}_"
            query = "SELECT relname FROM pg_class WHERE starts_with(relname, %s)"
            left = connection.execute(query, [prefix]).fetchall()
        assert [each for (each,) in rows] == list(range(ROWS)), where
        assert marker == (BATCHES - 1, ROWS // BATCHES), where
        assert left == [], where


@pytest.fixture
def make_sink(server, tmp_path):
    return lambda: Sink(server.url, tmp_path)


@pytest.mark.timeout(600)
def test_each_driver_dies_a_step_later(make_sink):
    """One after another on one sink, until one lives to its end."""
    sink = make_sink()
    for at in itertools.count(1):
        code, said = sink.run(at=at, after=True)
        if code == 0:
            break
        assert code == -9, said
    assert at > 25
    assert json.loads(said)[-1] == "note"
    sink.check(f"{at} drivers")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_driver_dies_at_any_step(make_sink):
    """Before or after each step of both batches; the next one ends well."""
    steps = make_sink().steps()

    def dies(case):
        at, after = case
        where, sink = f"{'after' if after else 'before'} {at}: {steps[at - 1]}", make_sink()
        code, said = sink.run(at=at, after=after)
        assert code == -9, (where, said)
        code, said = sink.run()
        assert code == 0, (where, said)
        sink.check(where)
        return where

    cases = list(itertools.product(range(1, len(steps) + 1), (False, True)))
    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(dies, cases))) == 2 * len(steps)


def kill_server(server, sink, at, *, after, where):
    """Kill the server while a driver is at this step; drivers are started until one ends well."""
    driver = sink.start(at=at, after=after, act="ask")
    postgres.server_dies(server, driver, sink.run, where)
    # A batch is written also where its staging table could not be dropped.
    code, said = sink.run_again()
    assert code == 0, (where, said)
    sink.check(where)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_the_server_dies_at_a_commit(server, make_sink, after):
    """Of the rows and the marker: they are there both or not at all, also for the next batch."""
    steps = make_sink().steps()
    moves = [at for at, name in enumerate(steps, 1) if "SET batch" in name]
    assert len(moves) == BATCHES
    for move in moves:
        assert steps[move] == "COMMIT"
        kill_server(server, make_sink(), move + 1, after=after, where=f"batch at {move}")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_server_dies_at_any_step(server, make_sink):
    """Before or after each step of both batches."""
    steps = make_sink().steps()
    for at, name in enumerate(steps, 1):
        for after in (False, True):
            where = f"{'after' if after else 'before'} {at}: {name}"
            kill_server(server, make_sink(), at, after=after, where=where)
