"""The driver path's bound, planned once: the same rows as planned each time, and the same bound."""

import pytest
from support.readers import read, values
from support.streams import Files, run

from twophase.spark import planned
from twophase.spark.bound import bounded, share_of, within
from twophase.spark.kafka_sink import KafkaSink
from twophase.spark.planned import PlannedBounds

KINDS = (
    "IF(id % 3 = 0, NULL, CAST(id AS STRING)) AS key",
    "CAST(rpad(id, 50, 'x') AS BINARY) AS value",
    "'t' AS topic",
    "CAST(id % 2 AS INT) AS partition",
    "array(struct('h' AS key, IF(id % 2 = 0, NULL, CAST('v' AS BINARY)) AS value)) AS headers",
    "timestamp_millis(id) AS timestamp",
)


@pytest.fixture
def bounds(spark):
    """Bounds of a run that has begun."""
    return PlannedBounds().begin("run", spark.range(0))


def handed(frame):
    """Return the frame as foreachBatch is handed one: rows behind a leaf."""
    return frame.localCheckpoint()


@pytest.mark.parametrize("rows", [0, 1, 7, 3_000])
def test_the_same_rows(spark, bounds, rows):
    """Of every column that a sink takes, in the same order, from several tasks, few and many."""
    frame = handed(spark.range(rows, numPartitions=3).selectExpr(*KINDS))
    expected = within(bounded(frame, share_of(3)).toArrow())
    found = within(bounds.collect(frame))
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist()
    assert found.num_rows == rows


def test_a_plan_serves_the_batches_after_it(spark, bounds):
    """Each with rows of its own; another schema has another plan, and a new run begins anew."""
    for start in (0, 10, 20):
        frame = handed(spark.range(start, start + 10).selectExpr("CAST(id AS STRING) AS value"))
        found = within(bounds.collect(frame)).column("value").to_pylist()
        assert found == [str(number) for number in range(start, start + 10)]
    assert len(bounds._planned) == 1
    bounds.collect(handed(spark.range(2).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS value")))
    assert len(bounds._planned) == 2
    assert bounds.begin("run", frame)._planned
    assert not bounds.begin("another run", frame)._planned


def test_what_comes_to_the_driver_is_bounded(spark, bounds):
    """Rows that are too many or too large come back empty or not at all, and flagged."""
    many = spark.range(5_000_000, numPartitions=2).selectExpr("'0123456789' AS value")
    found = bounds.collect(handed(many))
    assert within(found) is None
    assert found.nbytes < 64_000_000
    large = spark.range(100, numPartitions=2).selectExpr("repeat('x', 1000000) AS value")
    found = bounds.collect(handed(large))
    assert within(found) is None
    assert found.nbytes < 64_000_000


def test_longer_offsets_than_before(spark, bounds):
    """A setting that changes within a run: read by the old plan, texts would be other ones."""
    name = "spark.sql.execution.arrow.useLargeVarTypes"
    frame = handed(spark.range(5).selectExpr("CAST(id AS STRING) AS value"))
    expected = [str(number) for number in range(5)]
    try:
        for large in ("false", "true", "false"):
            spark.conf.set(name, large)
            assert within(bounds.collect(frame)).column("value").to_pylist() == expected
    finally:
        spark.conf.unset(name)


def test_more_than_a_leaf_is_for_spark_to_plan(spark, bounds):
    """What users add is shown, reported and cached by Spark, so nothing of it is gone past."""
    frame = handed(spark.range(5).selectExpr("CAST(id AS STRING) AS value"))
    assert bounds.collect(frame.where("value > 1")) is None
    assert within(bounds.collect(frame)).num_rows == 5
    kept = handed(spark.range(6).selectExpr("CAST(id AS STRING) AS value")).persist()
    try:
        assert bounds.collect(kept) is None
    finally:
        kept.unpersist(blocking=True)


@pytest.fixture
def stream(spark, kafka, make_topic, tmp_path):
    """Run three batches of a query through a sink, by `call`, and return the sink and its rows."""

    def run_it(call=lambda sink: sink):
        topic = make_topic(kafka, partitions=2)
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        sink = KafkaSink(sink_id=topic, topic=topic, options=options, path="driver")
        files = Files(spark, tmp_path / topic, "k string, v string")
        for number in range(3):
            files.add({"k": "a", "v": f"{number}"}, {"k": "b", "v": f"{number}"})
        frame = files.frame().selectExpr("k AS key", "v AS value")
        run(frame, call(sink), tmp_path / f"checkpoint-{topic}")
        sink.close()
        assert len(read(kafka.bootstrap_servers, topic)) == 6
        return sink, sorted(values(kafka.bootstrap_servers, topic))

    return run_it


EXPECTED = [b"0", b"0", b"1", b"1", b"2", b"2"]


def test_a_query_plans_once(stream):
    """All batches of a run go by one plan."""
    sink, found = stream()
    assert found == EXPECTED
    assert len(sink._planned._planned) == 1


def test_rows_that_the_user_changes_in_foreach_batch(stream):
    """They are planned batch by batch, and written all the same."""
    sink, found = stream(
        lambda sink: (
            lambda frame, batch: sink(frame.selectExpr("key", "value || '!' AS value"), batch)
        )
    )
    assert found == [each + b"!" for each in EXPECTED]
    assert not sink._planned._planned


def test_a_spark_with_other_plans(stream, monkeypatch, caplog):
    """Private names that are not there: one warning for the run, and every row is written."""
    monkeypatch.setattr(planned, "_KINDS", ("ProjectExec", "FilterExec", "AnotherExec"))
    _, found = stream()
    assert found == EXPECTED
    assert caplog.text.count("planned one by one") == 1
