"""One query to four sinks whose driver is killed with -9 at the commit of each: each row once."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from support.folders import ids_in
from support.readers import values
from support.streams import Files

from twophase.kafka.admin import TransactionState, list_transactions
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wires import shared_wire

QUERY = Path(__file__).parent / "fan_out_query.py"
BATCHES, ROWS = 3, 6
SINKS = ["kafka batch scope", "kafka task scope", "postgres", "folder"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


class Fan:
    """Four stores, and the query that writes to them."""

    def __init__(self, kafka, make_topic, url, folder):
        self.servers, self.url, self.target = kafka.bootstrap_servers, url, folder / "target"
        self.sink_id, self.table = f"fan-{uuid4().hex[:8]}", f"fan_{uuid4().hex[:12]}"
        self.topics = [make_topic(kafka, 2) for _ in range(2)]
        self.arguments = {
            "source": str(folder / "source"),
            "checkpoint": str(folder / "check"),
            "servers": self.servers,
            "topic": self.topics[0],
            "task_topic": self.topics[1],
            "url": url,
            "table": self.table,
            "folder": str(self.target),
            "sink_id": self.sink_id,
        }
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE TABLE {self.table} (id bigint)")

    def run(self, **more):
        """Run until the end; return the exit code and what was said."""
        done = subprocess.run(
            [sys.executable, str(QUERY), json.dumps(self.arguments | more)],
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr[-3000:]

    def rows(self):
        """What a reader sees in each store."""
        with psycopg.connect(self.url) as connection:
            found = connection.execute(f"SELECT id FROM {self.table} ORDER BY id").fetchall()
        in_topics = [sorted(map(int, values(self.servers, each))) for each in self.topics]
        return [*in_topics, [each for (each,) in found], ids_in(self.target)]

    def left(self):
        """What is open or staged in any of them."""
        wire = shared_wire(KafkaOptions.parse({"kafka.bootstrap.servers": self.servers}))
        prefix, states = f"twophase.{self.sink_id}", (TransactionState.ONGOING,)
        digest = hashlib.sha256(f"twophase.{self.sink_id}-2".encode()).hexdigest()[:12]
        query = "SELECT relname FROM pg_class WHERE starts_with(relname, %s)"
        with psycopg.connect(self.url) as connection:
            tables = connection.execute(query, [f"twophase_stage_{digest}_"]).fetchall()
        hidden = [path.name for path in self.target.glob(".*")]
        return [*list_transactions(wire, prefix=prefix, states=states), *tables, *hidden]


def rows_of(batches):
    """The rows of so many batches."""
    return [100 * number + each for number in range(batches) for each in range(ROWS)]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("place", range(len(SINKS)), ids=SINKS)
def test_killed_at_a_commit(spark, kafka, make_topic, postgres_url, tmp_path, place, when):
    """Those before it have the batch, those behind it have not; the next driver sets that right."""
    files = Files(spark, tmp_path / "source", "id long")
    for number in range(BATCHES):
        files.add(*({"id": 100 * number + each} for each in range(ROWS)))
    fan = Fan(kafka, make_topic, postgres_url, tmp_path)
    code, said = fan.run(die=[place, 1, when])
    assert code == -9, said
    found = fan.rows()
    assert found[:place] == [rows_of(2)] * place
    assert found[place + 1 :] == [rows_of(1)] * (len(SINKS) - place - 1)
    # In task scope it is one task of some that was committed.
    assert set(rows_of(1)) <= set(found[place]) <= set(rows_of(2))
    assert (len(found[place]) > ROWS) == (when == "after")
    code, said = fan.run()
    assert code == 0, said
    assert fan.rows() == [rows_of(BATCHES)] * len(SINKS)
    assert fan.left() == []
