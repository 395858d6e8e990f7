"""One query to Kafka, PostgreSQL and a folder of files: each row once in each, whichever fails."""

from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from parquet_folder import ParquetFolder
from support.folders import ids_in
from support.readers import read
from support.streams import Files, run

from twophase import KafkaSink, TaskSink, fan_out
from twophase.errors import ConfigurationError
from twophase.postgres.table import PostgresTable

EXAMPLE = Path(__file__).parents[2] / "examples" / "parquet_folder.py"


class Failing:
    """A sink that fails before or after one of its batches, once."""

    def __init__(self, sink, batch, *, after):
        self.sink, self.left, self.after = sink, {batch}, after
        self.sink_id = sink.sink_id

    def __call__(self, frame, batch_id):
        fails = batch_id in self.left
        self.left.discard(batch_id)
        if fails and not self.after:
            raise ValueError("before")
        self.sink(frame, batch_id)
        if fails:
            raise ValueError("after")


@pytest.mark.parametrize(
    ("failing", "after"),
    [
        (1, True),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in ((0, 0), (0, 1), (1, 0), (2, 0), (2, 1))
        ),
    ],
)
def test_each_sink_once(spark, kafka, make_topic, postgres_url, tmp_path, failing, after):
    """Whichever sink fails, before or after its commit, all of them end with every row once."""
    spark.sparkContext.addPyFile(str(EXAMPLE))
    files = Files(spark, tmp_path / "source", "id long")
    for number in range(3):
        files.add(*({"id": 10 * number + each} for each in range(4)))
    topic, table, folder = make_topic(kafka, 2), f"fan_{uuid4().hex[:12]}", tmp_path / "target"
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE TABLE {table} (id bigint)")
    run_id = uuid4().hex[:8]
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    to_kafka = KafkaSink(sink_id=f"kafka-{run_id}", topic=topic, options=options)
    sinks = [
        Valued(to_kafka),
        TaskSink(PostgresTable(postgres_url, table), sink_id=f"postgres-{run_id}"),
        TaskSink(ParquetFolder(folder), sink_id=f"folder-{run_id}"),
    ]
    sinks[failing] = Failing(sinks[failing], 1, after=after)
    with pytest.raises(Exception, match="after" if after else "before"):
        run(files.frame(), fan_out(*sinks), tmp_path / "check")
    run(files.frame(), fan_out(*sinks), tmp_path / "check")
    expected = [10 * number + each for number in range(3) for each in range(4)]
    assert sorted(int(row.value) for row in read(kafka.bootstrap_servers, topic)) == expected
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute(f"SELECT id FROM {table} ORDER BY id").fetchall()
    assert [each for (each,) in found] == expected
    assert ids_in(folder) == expected
    to_kafka.close()


class Valued:
    """A Kafka sink for rows of ids."""

    def __init__(self, sink):
        self.sink, self.sink_id = sink, sink.sink_id

    def __call__(self, frame, batch_id):
        self.sink(frame.selectExpr("cast(id AS string) AS value"), batch_id)


def test_what_is_no_sink(tmp_path):
    """Is refused before a query starts, and so are two of one name."""
    folder = ParquetFolder(tmp_path)
    with pytest.raises(ConfigurationError, match="given no sink"):
        fan_out()
    with pytest.raises(ConfigurationError, match="fan_out was given ParquetFolder; allowed are"):
        fan_out(folder)
    with pytest.raises(ConfigurationError, match="two sinks with the sink_id 'a'"):
        fan_out(TaskSink(folder, sink_id="a"), TaskSink(folder, sink_id="a"))
