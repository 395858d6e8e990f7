"""Rows that are not weighed one by one: as many as before, and never too heavy a batch."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Observation
from pyspark.sql import functions as sql
from support.readers import values
from support.streams import Files, run

from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire
from twophase.spark import light
from twophase.spark.arrow_bound import UNWEIGHED, arrow_bound
from twophase.spark.kafka_sink import KafkaSink
from twophase.spark.light import job_may_guess, light_rows
from twophase.spark.local_path import LocalPath
from twophase.spark.routed_path import RoutedPath
from twophase.spark.tasks import EncodeTask

ROWS = 3_000
SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"
# One that no share of a batch would hold.
HEAVY = "repeat('x', 20000)"


@pytest.fixture
def topic(kafka, make_topic):
    return make_topic(kafka, partitions=3)


@pytest.fixture
def wire(kafka):
    with Wire(KafkaOptions.parse({"kafka.bootstrap.servers": kafka.bootstrap_servers})) as opened:
        yield opened


def numbers(spark, heavy="false"):
    """Rows of their numbers; those that `heavy` picks are heavy."""
    value = f"IF({heavy}, concat(id, {HEAVY}), CAST(id AS STRING))"
    return spark.range(ROWS, numPartitions=3).selectExpr(
        "CAST(id % 17 AS STRING) AS key", f"IF(id % 5 = 0, NULL, {value}) AS value"
    )


def batch_rows(frame):
    """How many rows the batches have that reach a worker."""

    def count(batches):
        yield from (pa.record_batch({"rows": [len(batch)]}) for batch in batches)

    return [row.rows for row in frame.mapInArrow(count, "rows long").collect()]


@pytest.mark.parametrize("kind", [RoutedPath, LocalPath])
@pytest.mark.parametrize("heavy", ["false", "id = 2999", "id % 2 = 1"])
def test_whatever_the_rows_weigh_all_are_encoded(heavy, kind, spark, wire, topic):
    """One heavy row at the very end, many, or none: the summary has every row, and says which."""
    path = kind(numbers(spark, heavy), wire, topic, light=lambda: True)
    try:
        summary = path.prepare()
    finally:
        path.free()
    assert sum(part.rows for part in summary.partitions) == ROWS
    assert path.heavy is (heavy != "false")
    assert spark.sparkContext.getLocalProperty(SETTING) is None


def test_a_job_with_a_heavy_row_writes_it(spark, kafka, topic):
    """The values are those of the frame, the heavy one whole."""
    frame = numbers(spark, "id = 1234")
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    KafkaSink(sink_id=f"light-{topic}", topic=topic, options=options).write(frame, run_id="r")
    expected = [row.value and row.value.encode() for row in frame.collect()]
    found = values(kafka.bootstrap_servers, topic)
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert max(len(value or b"") for value in found) > 20_000


def test_a_stream_weighs_again_after_a_heavy_row(spark, kafka, topic, tmp_path):
    """Batch 0 tells that rows are small, batch 1 has a heavy one, batch 2 is guessed no more."""
    files = Files(spark, tmp_path / "in", "v string")
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    sink = KafkaSink(sink_id=f"light-{topic}", topic=topic, options=options, path="routed")
    tried = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "twophase.spark.worker_path.light_rows",
            lambda frame: tried.append(1) or light_rows(frame),
        )
        for number, value in enumerate(("a", "b" * 20_000, "c")):
            files.add({"v": value})
            run(files.frame().selectExpr("v AS value"), sink, tmp_path / "checkpoint")
            assert len(tried) == min(number, 1)
    sink.close()
    assert {len(value) for value in values(kafka.bootstrap_servers, topic)} == {1, 20_000}


def test_unweighed_batches_are_bounded_by_their_rows(spark):
    """Rows of 20 kB: Spark cuts a batch that is too heavy, and unweighed one that is too long."""
    frame = spark.range(10_000, numPartitions=1).selectExpr(f"concat(id, {HEAVY}) AS value")
    assert max(batch_rows(frame)) < 10_000
    with arrow_bound(spark, UNWEIGHED):
        assert batch_rows(frame) == [10_000]
    assert max(batch_rows(frame)) < 10_000


def test_a_users_own_bound_stays(spark):
    """Whoever has set one has a reason."""
    frame = spark.range(10_000, numPartitions=1).selectExpr("CAST(id AS STRING) AS value")
    spark.conf.set(SETTING, "20000b")
    try:
        with arrow_bound(spark, UNWEIGHED):
            assert max(batch_rows(frame)) < 10_000
    finally:
        spark.conf.unset(SETTING)


def test_a_light_form_has_no_heavy_row(spark):
    """A row is kept up to its share of a batch; a heavier one is empty, and flagged."""
    share = light._BATCH_BYTES // 10_000 - 2 * light._FIXED_BYTES
    frame = spark.createDataFrame(
        [("k", "x" * (share - 1)), ("k", "x" * share), (None, None)], "key string, value string"
    )
    found = [(row.key, row.value, row.twophase_heavy) for row in light_rows(frame).collect()]
    assert found == [("k", "x" * (share - 1), False), (None, None, True), (None, None, False)]


@pytest.mark.parametrize("rows", ["0", "1000000"])
def test_without_a_bound_by_rows_there_is_no_light_form(rows, spark):
    """Batches of any length, or so long ones that a share would be next to nothing."""
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    spark.conf.set(setting, rows)
    try:
        assert light_rows(numbers(spark)) is None
    finally:
        spark.conf.unset(setting)


def test_headers_are_always_weighed(spark):
    """Their size is an expression of its own, slower than what it saves."""
    headers = "array(struct('h' AS key, CAST('v' AS BINARY) AS value)) AS headers"
    assert light_rows(spark.range(1).selectExpr("'v' AS value", headers)) is None


def test_a_job_guesses_where_nothing_is_harmed_by_it(spark):
    """A wrong guess would cost a shuffle again, and break off what the user observes."""
    plain = numbers(spark)
    assert job_may_guess(plain)
    assert not job_may_guess(plain.groupBy("key").count())
    assert not job_may_guess(plain.observe(Observation(), sql.count("*")))


def test_batches_of_the_users_own_functions_keep_their_bound(spark, kafka, topic, tmp_path):
    """Large values in, small ones out: in a job, and in a stream after a batch of small rows."""
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    sink = KafkaSink(sink_id=f"light-{topic}", topic=topic, options=options, path="routed")
    lengths = sql.pandas_udf(lambda values: values.map(lambda _: str(len(values))), "string")

    def shortened(frame):
        return frame.select(lengths(sql.concat("id", sql.expr(HEAVY))).alias("value"))

    numbered = spark.range(10_000, numPartitions=1)
    sink.write(shortened(numbered), run_id="r")
    found = values(kafka.bootstrap_servers, topic)
    assert len(found) == 10_000
    assert max(int(value) for value in found) < 10_000
    files = Files(spark, tmp_path / "in", "id long")
    for _ in range(2):
        files.add(*({"id": number} for number in range(10_000)))
        run(shortened(files.frame().coalesce(1)), sink, tmp_path / "checkpoint")
    sink.close()
    found = values(kafka.bootstrap_servers, topic)
    assert len(found) == 30_000
    assert max(int(value) for value in found) < 10_000


def test_the_workers_that_meet_a_heavy_row_stay(spark, wire, topic, tmp_path, monkeypatch):
    """Spark would end one that leaves rows unread, and a new one takes longer than most batches."""
    folder = str(tmp_path)

    class Noted(EncodeTask):
        def __call__(self, batches):
            Path(folder, str(os.getpid())).touch()
            yield from super().__call__(batches)

    monkeypatch.setattr("twophase.spark.worker_path.EncodeTask", Noted)
    path = LocalPath(numbers(spark, "id % 1000 = 7"), wire, topic, light=lambda: True)
    try:
        path.prepare()
    finally:
        path.free()
    assert path.heavy
    noted = [int(entry.name) for entry in tmp_path.iterdir()]
    assert noted
    # Long enough for Spark to end what it will not use again.
    time.sleep(1)
    for pid in noted:
        os.kill(pid, 0)


def test_a_task_may_stop_with_batches_unread(spark, wire, topic):
    """Many batches come after the heavy row."""
    value = f"IF(id = 5, {HEAVY}, CAST(id AS STRING)) AS value"
    frame = spark.range(50_000, numPartitions=1).selectExpr(value)
    path = RoutedPath(frame, wire, topic, light=lambda: True)
    try:
        summary = path.prepare()
    finally:
        path.free()
    assert (path.heavy, sum(part.rows for part in summary.partitions)) == (True, 50_000)
