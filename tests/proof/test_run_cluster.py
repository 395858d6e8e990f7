"""`twophase run --master spark://...` on a real cluster of two workers, killed with -9."""

import os
import signal
import time
from uuid import uuid4

import psycopg
import pytest
from support.pipelines import begin, fill, finish, kafka_to_kafka, until
from support.readers import values

from .cluster import SparkCluster

pytestmark = pytest.mark.long
ROWS = 3_000


def test_kafka_and_postgres_on_a_cluster(kafka, make_topic, postgres_url, tmp_path, monkeypatch):
    """Each row once in both, over two executors, after the driver was killed twice."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka, 4), make_topic(kafka, 2)
    table = f"run_{uuid4().hex[:10]}"
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE TABLE {table} (number bigint)")
    monkeypatch.setenv("POSTGRES_URL", postgres_url)
    fill(servers, source, range(ROWS))
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=300)
    own = f"""\
      path: routed
      sql: SELECT key, CAST(2 * number AS STRING) AS value FROM numbers
  - postgres:
      sink_id: table-{table}
      url: ${{env:POSTGRES_URL}}
      table: {table}
      sql: SELECT number FROM numbers
checkpoint:"""
    text = path.read_text().replace("checkpoint:", own)
    begin_, end = text.index("  - view: doubled"), text.index("sinks:")
    path.write_text(text[:begin_] + text[end:])
    with SparkCluster(tmp_path / "spark", workers=2) as cluster:
        conf = cluster.settings()["conf"]
        lines = "".join(f"    {name}: {value}\n" for name, value in conf.items())
        text = path.read_text().replace("    spark.sql.shuffle.partitions: 2\n", "")
        path.write_text(text + lines)
        for after_s in (0.0, 0.4):
            process = begin(path, "--master", cluster.url)
            until(process, lambda told: told["event"] == "batch")
            time.sleep(after_s)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        code, told, err = finish(begin(path, "--master", cluster.url, "--available-now"), 200)
        assert code == 0, err
        assert cluster.executors_started() == 2
    assert told[-1]["why"] == "the source is used up"
    assert sorted(map(int, values(servers, target))) == [2 * number for number in range(ROWS)]
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute(f"SELECT number FROM {table} ORDER BY number").fetchall()
    assert [each for (each,) in found] == list(range(ROWS))
