"""Batch jobs: `sink.write(frame, run_id=...)` writes each run once, whoever repeats it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient
from support.readers import values

from twophase.errors import ConfigurationError, MarkerMissing, StoreUnavailable
from twophase.kafka.store import KafkaStore
from twophase.kafka.wire import Wire
from twophase.spark.kafka_sink import KafkaSink


@pytest.fixture
def topic(kafka, make_topic):
    return make_topic(kafka, partitions=2)


@pytest.fixture
def sink(kafka, topic):
    return KafkaSink(
        sink_id=f"job-{topic}",
        topic=topic,
        options={"kafka.bootstrap.servers": kafka.bootstrap_servers},
    )


def frame(spark, text, count=3):
    return spark.range(count).selectExpr("CAST(id AS STRING) AS key", f"'{text}' AS value")


def test_a_run_is_written_once(spark, sink, kafka, topic):
    """A second write of the run does nothing, whatever rows it brings; another run is written."""
    first = sink.write(frame(spark, "one"), run_id="2026-11-15")
    again = sink.write(frame(spark, "never"), run_id="2026-11-15")
    other = sink.write(frame(spark, "two"), run_id="2026-11-16")
    assert [record.outcome for record in (first, again, other)] == [
        "committed",
        "skipped",
        "committed",
    ]
    assert (first.rows, again.rows, first.run_id) == (3, 0, "2026-11-15")
    assert sorted(values(kafka.bootstrap_servers, topic)) == [b"one"] * 3 + [b"two"] * 3


def test_what_is_for_a_query_is_told(spark, kafka, topic, caplog):
    """By name, once for all runs of the sink; the rows are written all the same."""
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    sink = KafkaSink(sink_id=f"job-{topic}", topic=topic, options=options, source_group="progress")
    for run_id in ("a", "b"):
        assert sink.write(frame(spark, run_id), run_id=run_id).rows == 3
    told = [r.getMessage() for r in caplog.records if "without effect" in r.getMessage()]
    assert told == [f"settings of sink job-{topic} without effect in a batch job: source_group"]


def test_runs_side_by_side(spark, sink, kafka, topic):
    """Runs of one sink at the same time do not fence each other."""
    with ThreadPoolExecutor(4) as pool:
        done = list(
            pool.map(lambda n: sink.write(frame(spark, f"{n}", 50), run_id=f"run-{n}"), range(4))
        )
    assert [record.outcome for record in done] == ["committed"] * 4
    expected = sorted(f"{n}".encode() for n in range(4) for _ in range(50))
    assert sorted(values(kafka.bootstrap_servers, topic)) == expected


@pytest.mark.parametrize("step", ["own", "write_marker", "commit"])
def test_a_run_that_fails_half_way_is_written_by_the_next_try(
    step, spark, sink, kafka, topic, monkeypatch
):
    """Before any step; nothing is visible in between, and all of it once afterwards."""

    def fails(*_args, **_more):
        raise StoreUnavailable("the network is gone")

    with monkeypatch.context() as patched:
        patched.setattr(KafkaStore, step, fails)
        with pytest.raises(StoreUnavailable):
            sink.write(frame(spark, "row"), run_id="r")
    assert sink.write(frame(spark, "row"), run_id="r").outcome == "committed"
    assert values(kafka.bootstrap_servers, topic) == [b"row"] * 3


def test_a_run_whose_marker_was_deleted_is_refused(spark, sink, kafka, topic):
    """The broker shows that something was committed under the run: nobody guesses."""
    sink.write(frame(spark, "row"), run_id="r")
    group = f"twophase.job-{topic}/r"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.delete_consumer_groups([group])[group].result(30)
    with pytest.raises(MarkerMissing):
        sink.write(frame(spark, "row"), run_id="r")
    assert values(kafka.bootstrap_servers, topic) == [b"row"] * 3


def test_wrong_calls_are_refused_by_name(spark, sink, tmp_path):
    """A stream, a run id that is no name, a frame without values: before anything is sent."""
    stream = spark.readStream.schema("value string").json(str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"write it by writeStream\.foreachBatch"):
        sink.write(stream, run_id="r")
    with pytest.raises(ConfigurationError, match="run_id is 'a/b'; allowed are"):
        sink.write(frame(spark, "row"), run_id="a/b")
    with pytest.raises(ConfigurationError, match="the column value is missing"):
        sink.write(spark.range(1).selectExpr("CAST(id AS STRING) AS key"), run_id="r")


def test_an_empty_run_is_remembered(spark, sink, kafka, topic):
    """A run without rows has a marker, so that its repetition with rows writes nothing."""
    assert sink.write(frame(spark, "row", 0), run_id="r").outcome == "committed"
    assert sink.write(frame(spark, "row"), run_id="r").outcome == "skipped"
    assert values(kafka.bootstrap_servers, topic) == []


def test_nothing_stays_connected(spark, sink):
    """A run closes its own connections."""
    opened = []
    with pytest.MonkeyPatch.context() as patched:
        start = Wire.__init__
        patched.setattr(Wire, "__init__", lambda w, o: (opened.append(w), start(w, o))[1])
        sink.write(frame(spark, "row"), run_id="r")
    assert opened
    assert all(wire.broken for wire in opened)
