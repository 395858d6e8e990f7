"""Rows per second into PostgreSQL, beside Spark's own JDBC sink with its settings for throughput.

Both write the same rows from one session with two cores, turn by turn, each time to a new table.
Server, driver and Python workers share the machine's cores. Spark's sink is at-least-once. The
server is the one that is fetched: how fast several writers extend one table depends on its version.

The last side bounds batch scope from above: the same rows by one COPY from a file of the server's
own, with no Spark and no client at all. Batch scope is one SQL transaction, so one process of the
server puts all rows into the table, and does it after the last of them was computed.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from bench.report import Figure
from bench.rows import UNIT
from bench.spark.setting import PARTITIONS, session
from bench.turns import turn_by_turn
from twophase import PostgresSink, TaskSink
from twophase.embedded.postgres import USER, EmbeddedPostgres
from twophase.postgres.table import PostgresTable

# A run has to outlast its own beginning, which is the same for ten rows.
TIMES, RUNS_MAX = 20, 5
JDBC = "Spark's JDBC sink, tuned"
TUNED = {"batchsize": "10000", "driver": "org.postgresql.Driver", "user": USER}
SERVER = {"shared_buffers": "256MB", "max_wal_size": "8GB", "fsync": "on"}
COLUMNS = (
    "id int8, customer int4, euros numeric(12, 2), item text, note text, at timestamptz, paid bool"
)


def measure(_: str, count: int, runs: int) -> Iterator[Figure]:
    """Measure both scopes beside Spark's sink, and that all of them have written all rows.

    Three times Spark's speed is for task scope to reach.
    """
    rows = TIMES * count
    with EmbeddedPostgres(fetched=True, **SERVER) as server, session() as spark:
        frame = orders(spark, rows)
        sides = (_batch_scope, _task_scope, _jdbc, _one_copy)
        _keep_a_file(frame, server.url)

        def rows_per_s(write: Callable[[DataFrame, str, str], None]) -> float:
            with _new_table(server.url) as table:
                start = time.perf_counter()
                write(frame, server.url, table)
                took_s = time.perf_counter() - start
                _check_count(server.url, table, rows)
            return rows / took_s

        batch, task, theirs, bound = turn_by_turn(sides, min(runs, RUNS_MAX), rows_per_s, warm_up=1)
    yield Figure("orders to PostgreSQL, task scope", UNIT, task, JDBC, theirs, 3.0)
    yield Figure("orders to PostgreSQL, batch scope", UNIT, batch, JDBC, theirs)
    yield Figure("orders to PostgreSQL, one COPY of a file, no Spark", UNIT, bound, JDBC, theirs)


def orders(spark: SparkSession, rows: int) -> DataFrame:
    """Return orders of seven columns, made as they are read."""
    number = sql.col("id")
    return spark.range(0, rows, 1, PARTITIONS).select(
        number,
        sql.pmod(number * 7919, sql.lit(100_003)).cast("int").alias("customer"),
        sql.pmod(number * 15_485_863, sql.lit(1_000_003)).cast("decimal(12, 2)").alias("euros"),
        sql.hex(sql.hash(number)).alias("item"),
        sql.concat(sql.lit("order "), number, sql.lit(" of a customer in EUR")).alias("note"),
        sql.timestamp_seconds(sql.lit(1_700_000_000) + number).alias("at"),
        (number % 3 == 0).alias("paid"),
    )


def _batch_scope(frame: DataFrame, url: str, table: str) -> None:
    PostgresSink(url, table, sink_id="bench").write(frame, run_id=uuid4().hex)


def _task_scope(frame: DataFrame, url: str, table: str) -> None:
    with tempfile.TemporaryDirectory() as log:
        sink = TaskSink(PostgresTable(url, table), sink_id="bench", decisions=log)
        sink.write(frame, run_id=uuid4().hex)


def _jdbc(frame: DataFrame, url: str, table: str) -> None:
    place = url.partition("@")[2]
    address = f"jdbc:postgresql://{place}?reWriteBatchedInserts=true"
    frame.write.mode("append").options(**TUNED).jdbc(address, table)


def _keep_a_file(frame: DataFrame, url: str) -> None:
    """Let the server write the rows to a file of its own, once."""
    with _new_table(url) as table, psycopg.connect(url, autocommit=True) as connection:
        _task_scope(frame, url, table)
        connection.execute(f"COPY {table} TO '{_file(connection)}' (FORMAT binary)")


def _one_copy(_: DataFrame, url: str, table: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(f"COPY {table} FROM '{_file(connection)}' (FORMAT binary)")


def _file(connection: psycopg.Connection) -> str:
    (folder,) = connection.execute("SHOW data_directory").fetchone()
    return f"{folder}/bench.copy"


@contextmanager
def _new_table(url: str) -> Iterator[str]:
    name = f"bench_{uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} ({COLUMNS})")
    try:
        yield name
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP TABLE {name}")
            connection.execute("CHECKPOINT")


def _check_count(url: str, table: str, rows: int) -> None:
    with psycopg.connect(url) as connection:
        found = connection.execute(f"SELECT count(*), count(DISTINCT id) FROM {table}").fetchone()
    if found != (rows, rows):
        raise SystemExit(f"{table} has (rows, ids) {found} and should have {rows} of each")
