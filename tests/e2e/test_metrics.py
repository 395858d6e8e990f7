"""Metrics of real sinks, scraped over HTTP while their drivers stand still in a batch."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from parquet_folder import ParquetFolder
from prometheus_client import CollectorRegistry
from support.scraping import scrape
from support.streams import Files, run

from twophase import KafkaSink, PostgresSink, TaskSink, fan_out
from twophase.errors import Fenced
from twophase.kafka.admin import TransactionState, describe_transaction
from twophase.kafka.options import KafkaOptions
from twophase.kafka.store import KafkaStore
from twophase.kafka.task_sink import KafkaTaskSink
from twophase.kafka.wires import shared_wire
from twophase.postgres.table import PostgresTable
from twophase.postgres.target import Target
from twophase.prometheus import PrometheusHook

EXAMPLE = Path(__file__).parents[2] / "examples" / "parquet_folder.py"


@pytest.fixture
def serve():
    """Make hooks with an endpoint each."""
    endpoints = []

    def make():
        hook = PrometheusHook(CollectorRegistry())
        endpoints.append(hook.serve(0))
        return hook, endpoints[-1].url

    yield make
    for endpoint in endpoints:
        endpoint.close()


@contextmanager
def held_commit(monkeypatch):
    """Let the first commit of rows wait for its release; a new sink commits a marker before."""
    at, go, original = threading.Event(), threading.Event(), KafkaStore.commit
    calls = itertools.count(1)

    def wait(self, *args):
        if next(calls) == 2:
            at.set()
            assert go.wait(120)
        return original(self, *args)

    monkeypatch.setattr(KafkaStore, "commit", wait)
    try:
        yield at, go
    finally:
        go.set()


def test_the_open_transaction_of_a_driver_that_hangs(spark, kafka, make_topic, serve, monkeypatch):
    """Its age grows beside its limit; a rival fences it; the rival's batch is 0 s old and skipped.

    What is scraped agrees with what the broker says of the transaction.
    """
    sink_id, topic = f"metrics-{uuid4().hex[:8]}", make_topic(kafka)
    given = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.transaction.timeout.ms": 45_000,
    }
    wire = shared_wire(KafkaOptions.parse(given))
    rows = spark.range(5).selectExpr("cast(id AS string) AS value")
    (mine, my_url), (rivals, rivals_url) = serve(), serve()

    def write(hook):
        own = {"sink_id": sink_id, "topic": topic, "hooks": [hook]}
        return KafkaSink(options=given, path="driver", **own).write(rows, run_id="monday")

    def see(url):
        found = scrape(url)
        return lambda name, **labels: found(name, sink_id, **labels)

    with ThreadPoolExecutor(1) as pool, held_commit(monkeypatch) as (at, go):
        hanging = pool.submit(write, mine)
        assert at.wait(120)
        first = see(my_url)
        time.sleep(0.3)
        second = see(my_url)
        broker = describe_transaction(wire, f"twophase.{sink_id}/monday")
        assert broker.state is TransactionState.ONGOING
        # The timeout of a new sink carries a code, in a few milliseconds.
        assert 44_900 < broker.timeout_ms <= 45_000
        assert first("transaction_limit_seconds") == 45
        assert second("transaction_age_seconds") >= first("transaction_age_seconds") + 0.3
        # The driver begins to count before the broker does, and not much.
        began_s = broker.started_ms / 1000
        least_s = time.time() - began_s
        ours_s = see(my_url)("transaction_age_seconds")
        assert least_s - 0.01 <= ours_s < time.time() - began_s + 5
        assert second("batch_age_seconds", phase="commit") > second("transaction_age_seconds")
        assert second("batches_total") is None
        assert second("fences_total") == 0
        assert write(rivals).outcome == "committed"
        go.set()
        with pytest.raises(Fenced):
            hanging.result(120)
    assert write(rivals).outcome == "skipped"
    after, theirs = see(my_url), see(rivals_url)
    assert (after("transaction_age_seconds"), after("batch_age_seconds")) == (0, None)
    assert (after("fences_total"), after("batches_total", outcome="failed")) == (1, 1)
    assert after("failed_batches_total", code=Fenced.code) == 1
    assert after("last_commit_timestamp_seconds") is None
    assert after("batch_seconds_sum", phase="open") >= 0.3
    # Of a sink that has no row yet nothing more is said, also where its first rows were aborted.
    assert theirs("recoveries_total", action="started") == 1
    assert theirs("recoveries_total", action="skipped") == 1
    assert theirs("batches_total", outcome="skipped") == 1
    assert (theirs("rows_total"), theirs("fences_total")) == (5, 0)
    assert theirs("transaction_limit_seconds") == 45
    assert time.time() - theirs("last_commit_timestamp_seconds") < 120


@pytest.mark.long
def test_every_sink_of_one_query(
    spark, kafka, make_topic, postgres_url, tmp_path, serve, monkeypatch
):
    """One hook for five sinks of every scope: each is scraped in the middle of its transaction."""
    spark.sparkContext.addPyFile(str(EXAMPLE))
    files = Files(spark, tmp_path / "source", "id long")
    for number in range(2):
        files.add(*({"id": 10 * number + each} for each in range(4)))
    topic, plain, table = make_topic(kafka, 2), make_topic(kafka), f"metrics_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE TABLE {table} (id bigint, value text)")
    hook, url = serve()
    seen = {}

    def look(kind, name, sink_id):
        """Scrape whenever a sink is about to do this, which it does in a transaction."""
        original = getattr(kind, name)

        def scraped(self, *args):
            # The Kafka sink in task scope has a marker of its own, in the same way.
            if kind is KafkaStore and self._name.sink_id != sink_id:
                return original(self, *args)
            time.sleep(0.01)
            found = scrape(url)
            seen.setdefault(sink_id, []).append(
                [
                    found(metric, sink_id)
                    for metric in ("transaction_age_seconds", "transaction_limit_seconds")
                ]
            )
            return original(self, *args)

        monkeypatch.setattr(kind, name, scraped)

    look(KafkaStore, "commit", "batch")
    look(KafkaTaskSink, "confirm", "task")
    look(Target, "move", "staged")
    look(PostgresTable, "commit", "prepared")
    look(ParquetFolder, "commit", "folder")
    monkeypatch.setattr(ParquetFolder, "time_limit_s", 77.0, raising=False)
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    to_kafka = {"options": options, "hooks": [hook]}
    sinks = [
        KafkaSink(sink_id="batch", topic=topic, **to_kafka),
        KafkaSink(sink_id="task", topic=topic, scope="task", **to_kafka),
        KafkaSink(sink_id="unrouted", topic=plain, guarantee="at-least-once", **to_kafka),
        PostgresSink(postgres_url, table, sink_id="staged", hooks=[hook]),
        TaskSink(PostgresTable(postgres_url, table), sink_id="prepared", hooks=[hook]),
        TaskSink(ParquetFolder(tmp_path / "target"), sink_id="folder", hooks=[hook]),
    ]
    frame = files.frame().selectExpr("id", "cast(id AS string) AS value")
    for_kafka = [Valued(sink) for sink in sinks[:3]]
    run(frame, fan_out(*for_kafka, *sinks[3:]), tmp_path / "check")
    limits = {"batch": 60, "task": 900, "staged": None, "prepared": None, "folder": 77}
    assert {name: {limit for _, limit in found} for name, found in seen.items()} == {
        name: {limit} for name, limit in limits.items()
    }
    assert all(age >= 0.01 for found in seen.values() for age, _ in found), seen
    after = scrape(url)
    for name in (*limits, "unrouted"):
        assert (after("rows_total", name), after("batches_total", name)) == (8, 2), name
        assert after("bytes_total", name) > 0, name
        assert after("transaction_age_seconds", name) == 0, name
        assert after("last_batch", name) == 1, name
        assert after("batch_seconds_count", name, phase="total") == 2, name
        if name != "unrouted":
            assert after("recoveries_total", name, action="started") == 1, name
            assert after("batch_seconds_sum", name, phase="open") > 0.02, name
    for sink in sinks[:2]:
        sink.close()


class Valued:
    """A Kafka sink for rows that have more columns."""

    def __init__(self, sink):
        self.sink, self.sink_id = sink, sink.sink_id

    def __call__(self, frame, batch_id):
        self.sink(frame.select("value"), batch_id)
