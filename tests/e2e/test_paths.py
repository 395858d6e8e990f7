"""Small batches through the driver, large ones not: the same rows, and never too many here."""

import pytest
from support.readers import read, values
from support.streams import Files, forget_last_commit, run

from twophase.spark.bound import bounded, within
from twophase.spark.kafka_sink import KafkaSink

SCHEMA = "k string, v string, topic string, n int"
PLAIN = ("k AS key", "v AS value")


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path / "in", SCHEMA)


@pytest.fixture
def checkpoint(tmp_path):
    return tmp_path / "checkpoint"


@pytest.fixture
def topic(kafka, make_topic):
    return make_topic(kafka, partitions=3)


@pytest.fixture
def make_sink(kafka, topic):
    """Make sinks that keep their records in `records`."""
    sinks = []

    def make(**more):
        records = []
        given = {"sink_id": f"path-{topic}", "topic": topic, "hooks": [records.append]} | more
        sink = KafkaSink(options={"kafka.bootstrap.servers": kafka.bootstrap_servers}, **given)
        sink.records = records
        sinks.append(sink)
        return sink

    yield make
    for sink in sinks:
        sink.close()


def test_all_paths_write_the_same(spark, kafka, make_topic, make_sink):
    """The same partitions, keys, values, headers and order of each key by every path."""
    frame = spark.range(3_000, numPartitions=4).selectExpr(
        "CAST(id % 17 AS STRING) AS key",
        "IF(id % 5 = 0, NULL, CAST(id AS STRING)) AS value",
        "array(struct('h' AS key, CAST(CAST(id AS STRING) AS BINARY) AS value)) AS headers",
        "timestamp_millis(unix_millis(now())) AS timestamp",
    )
    found = []
    for path in ("driver", "routed", "local"):
        topic = make_topic(kafka, partitions=3)
        record = make_sink(topic=topic, sink_id=f"s-{topic}", path=path).write(frame, run_id="r")
        assert (record.path, record.rows, record.outcome) == (path, 3_000, "committed")
        rows = read(kafka.bootstrap_servers, topic)
        found.append([(row.partition, row.key, row.value, row.headers) for row in rows])
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 3_000


def test_a_topic_for_each_row_is_found_without_a_second_job(
    files, checkpoint, kafka, make_sink, make_topic
):
    """Topics come from the rows that are here already; a topic that is not there is named."""
    other = make_topic(kafka)
    files.add({"v": "a", "topic": other}, {"v": "b", "topic": other})
    sink = make_sink(topic=None, marker_topic=other, path="driver")
    run(files.frame().selectExpr("v AS value", "topic"), sink, checkpoint)
    assert sorted(values(kafka.bootstrap_servers, other)) == [b"a", b"b"]
    files.add({"v": "c", "topic": "not-there"})
    with pytest.raises(Exception, match="topic 'not-there' does not exist"):
        run(files.frame().selectExpr("v AS value", "topic"), sink, checkpoint)


def test_rows_without_keys_are_spread_over_the_batches(files, checkpoint, kafka, topic, make_sink):
    """Small batches do not all go to the first partition."""
    for number in range(3):
        files.add({"v": f"{number}"})
    run(files.frame().selectExpr("v AS value"), make_sink(path="driver"), checkpoint)
    assert {row.partition for row in read(kafka.bootstrap_servers, topic)} == {0, 1, 2}


def test_the_path_follows_the_size_of_the_batches(files, checkpoint, kafka, topic, make_sink):
    """Unknown: the workers. Small before: the driver. Too large for it: the workers again."""
    for rows in (10, 20, 300_000, 30, 40):
        files.add({"k": "a", "v": "x" * 90, "n": rows})
    frame = files.frame().selectExpr(*PLAIN, "explode(sequence(1, n)) AS partition")
    frame = frame.selectExpr("concat(key, partition % 7) AS key", "value")
    sink = make_sink()
    run(frame, sink, checkpoint)
    found = [(record.rows, record.path) for record in sink.records]
    sizes = [rows for rows, _ in found]
    assert sorted(sizes) == [10, 20, 30, 40, 300_000]
    large = sizes.index(300_000)
    expected = ["driver"] * 5
    expected[0] = expected[large] = "local"
    if large + 1 < 5:
        expected[large + 1] = "local"
    assert [path for _, path in found] == expected
    assert len(read(kafka.bootstrap_servers, topic)) == 300_100


def test_what_comes_to_the_driver_is_bounded(spark):
    """Rows that are too many or too large come back empty or not at all, and flagged."""
    many = bounded(spark.range(5_000_000).selectExpr("'0123456789' AS value"), 1_000_000).toArrow()
    assert 0 < many.num_rows < 5_000_000 / 50
    assert within(many) is None
    assert many.nbytes < 4_000_000
    large = spark.range(200).selectExpr(
        "repeat('x', 500000) AS value",
        "array(struct('h' AS key, CAST(repeat('y', 500000) AS BINARY) AS value)) AS headers",
    )
    found = bounded(large, 1_000_000).toArrow()
    assert within(found) is None
    assert found.nbytes < 4_000_000
    headers = bounded(large.drop("value"), 1_000_000).toArrow()
    assert within(headers) is None
    assert headers.nbytes < 4_000_000


def test_without_the_bound_all_rows_would_come(spark):
    """The damage: the same frame, collected as it is."""
    assert (
        spark.range(1_000_000).selectExpr("'0123456789' AS value").toArrow().num_rows == 1_000_000
    )


def test_state_stays_right_when_the_guess_was_wrong(files, checkpoint, kafka, topic, make_sink):
    """The plan of a stateful query is executed twice in one batch; its counts are those of once."""
    for _ in range(3):
        files.add({"k": "a", "n": 120_000})
    counts = (
        files.frame()
        .selectExpr("explode(sequence(1, n)) AS i")
        .groupBy("i")
        .count()
        .selectExpr("rpad(i, 100, '-') AS key", "CAST(count AS STRING) AS value")
    )
    sink = make_sink(path="driver")
    run(counts, sink, checkpoint, mode="update")
    assert [record.path for record in sink.records] == ["local"] * 3
    by_count = {}
    for row in read(kafka.bootstrap_servers, topic):
        by_count[row.value] = by_count.get(row.value, 0) + 1
    assert by_count == {b"1": 120_000, b"2": 120_000, b"3": 120_000}


def test_a_batch_that_spark_runs_again_through_the_driver(
    files, checkpoint, kafka, topic, make_sink
):
    """The marker tells, whatever path the batch took."""
    files.add({"k": "a", "v": "once"})
    for path in ("driver", "driver", "routed", "local"):
        sink = make_sink(path=path)
        run(files.frame().selectExpr(*PLAIN), sink, checkpoint)
        forget_last_commit(checkpoint)
    assert [record.outcome for record in sink.records] == ["skipped"]
    assert values(kafka.bootstrap_servers, topic) == [b"once"]


@pytest.mark.parametrize("path", ["driver", "routed", "local"])
def test_the_plan_is_executed_once(path, spark, kafka, topic, make_sink, make_topic):
    """Also where each row names its topic: nothing is asked of the plan before its blocks."""
    other = make_topic(kafka, partitions=2)
    counter = spark.sparkContext.accumulator(0)

    def counted(batches):
        for batch in batches:
            counter.add(batch.num_rows)
            yield batch

    rows = spark.range(100, numPartitions=2).selectExpr(
        "CAST(id AS STRING) AS value", f"IF(id % 2 = 0, '{topic}', '{other}') AS topic"
    )
    frame = rows.mapInArrow(counted, "value string, topic string")
    sink = make_sink(topic=None, marker_topic=topic, path=path)
    record = sink.write(frame, run_id=f"once-{path}")
    assert (record.rows, record.path) == (100, path)
    assert counter.value == 100
    assert len(values(kafka.bootstrap_servers, other)) == 50
