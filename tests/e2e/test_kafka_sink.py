"""KafkaSink in a streaming query: what users write, and what a reader of another library finds."""

import json
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from support.readers import partitions, read, values
from support.waiting import wait_until

from twophase.errors import ConfigurationError
from twophase.kafka.admin import list_transactions
from twophase.kafka.identity import TopicPartition
from twophase.kafka.offsets import read_offsets
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire
from twophase.spark.kafka_sink import KafkaSink


class Files:
    """A streaming source of JSON files: one trigger takes all that are new."""

    def __init__(self, spark, folder):
        self.spark, self.folder, self.checkpoint = spark, folder / "in", folder / "checkpoint"
        self.folder.mkdir()

    def add(self, *rows):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (self.folder / f"{uuid4().hex}.json").write_text(text)

    def frame(self, schema="k string, v string, t timestamp, topic string"):
        return self.spark.readStream.schema(schema).json(str(self.folder))

    def run(self, frame, sink, mode="append"):
        """Run until all files are in the topic; raise what the query raised."""
        query = (
            frame.writeStream.foreachBatch(sink)
            .outputMode(mode)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        assert not query.isActive

    def forget_last_commit(self):
        """Take away Spark's note that the last batch is done, as a crash before it would."""
        commits = self.checkpoint / "commits"
        last = max((path for path in commits.iterdir() if path.name.isdigit()), key=_number)
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)


def _number(path):
    return int(path.name)


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path)


@pytest.fixture
def topic(kafka, make_topic):
    return make_topic(kafka, partitions=2)


@pytest.fixture
def make_sink(kafka, topic):
    """Make sinks of one id to the topic of the test."""
    sinks, sink_id = [], f"sink-{uuid4().hex[:8]}"

    def make(**more):
        given = {"topic": topic, "sink_id": sink_id} | more
        sink = KafkaSink(options={"kafka.bootstrap.servers": kafka.bootstrap_servers}, **given)
        sinks.append(sink)
        return sink

    yield make
    for sink in sinks:
        sink.close()


PLAIN = ("k AS key", "v AS value")


def test_batch_after_batch(files, make_sink, kafka, topic):
    """Every file's rows once; the next start goes on where the last one ended."""
    for number in range(3):
        files.add({"k": "a", "v": f"row-{number}"})
        files.run(files.frame().selectExpr(*PLAIN), make_sink())
    assert values(kafka.bootstrap_servers, topic) == [b"row-0", b"row-1", b"row-2"]


def test_all_columns(files, make_sink, kafka, topic):
    """Key, value, headers, timestamp and partition arrive as they were; a null value too."""
    files.add({"k": "a", "v": "one", "t": "2026-11-15T10:00:00.123Z"}, {"k": "b", "v": None})
    frame = files.frame().selectExpr(
        *PLAIN,
        "coalesce(t, timestamp '2026-11-15T11:00:00Z') AS timestamp",
        "1 AS partition",
        "array(struct('trace' AS key, CAST(k AS BINARY) AS value)) AS headers",
    )
    files.run(frame, make_sink())
    rows = sorted(read(kafka.bootstrap_servers, topic), key=lambda row: row.key)
    assert [(row.key, row.value, row.partition, row.headers) for row in rows] == [
        (b"a", b"one", 1, (("trace", b"a"),)),
        (b"b", None, 1, (("trace", b"b"),)),
    ]
    assert rows[0].timestamp_ms == 1_794_736_800_123


def test_a_topic_for_each_row(files, make_sink, kafka, make_topic, topic):
    """Topics come from the column; the marker has a topic of its own."""
    first, second = make_topic(kafka), make_topic(kafka, partitions=3)
    files.add(*({"v": f"{name[-4:]}", "topic": name} for name in (first, second, first)))
    sink = make_sink(topic=None, marker_topic=topic)
    files.run(files.frame().selectExpr("v AS value", "topic"), sink)
    assert values(kafka.bootstrap_servers, first) == [first[-4:].encode()] * 2
    assert values(kafka.bootstrap_servers, second) == [second[-4:].encode()]


def test_a_batch_that_spark_runs_again_is_not_written_again(files, make_sink, kafka, topic):
    """Killed after the commit, before Spark's own note: the marker tells."""
    files.add({"k": "a", "v": "once"})
    files.run(files.frame().selectExpr(*PLAIN), make_sink())
    for _ in range(2):
        files.forget_last_commit()
        files.run(files.frame().selectExpr(*PLAIN), make_sink())
    assert values(kafka.bootstrap_servers, topic) == [b"once"]


def test_state_stays_right_through_a_batch_that_is_skipped(files, make_sink, kafka, topic):
    """A count per key: the skipped batch still advances the state, and is still not written."""
    counts = files.frame().groupBy("k").count()
    frame = counts.selectExpr("k AS key", "CAST(count AS STRING) AS value")
    files.add({"k": "a"}, {"k": "a"})
    files.run(frame, make_sink(), mode="update")
    files.add({"k": "a"})
    files.run(frame, make_sink(), mode="update")
    files.forget_last_commit()
    files.add({"k": "a"})
    files.run(frame, make_sink(), mode="update")
    assert values(kafka.bootstrap_servers, topic) == [b"2", b"3", b"4"]


def test_a_topic_that_gains_partitions(files, make_sink, kafka, topic):
    """The next batch uses the new partitions."""
    sink = make_sink()
    files.add({"k": "a", "v": "before"})
    files.run(files.frame().selectExpr(*PLAIN), sink)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
    wait_until(lambda: partitions(kafka.bootstrap_servers, topic) == 5)
    files.add(*({"k": f"key-{number}", "v": "after"} for number in range(200)))
    files.run(files.frame().selectExpr(*PLAIN), sink)
    assert {row.partition for row in read(kafka.bootstrap_servers, topic)} == {0, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (("k AS key",), "the column value is missing"),
        (("v AS value", "1.5 AS key"), "the column key is of type decimal(2,1); allowed is string"),
        (("v AS value", "k AS kee"), "the column kee is none of a Kafka record's; allowed are key"),
    ],
)
def test_a_wrong_column_is_refused_by_name(columns, said, files, make_sink, kafka, topic):
    """One sentence, before anything is sent."""
    files.add({"k": "a", "v": "never"})
    with pytest.raises(Exception, match="TWOPHASE_CONFIGURATION") as caught:
        files.run(files.frame().selectExpr(*columns), make_sink())
    assert said in str(caught.value)
    assert values(kafka.bootstrap_servers, topic, committed=False) == []


def test_a_topic_that_does_not_exist(files, make_sink):
    """Said at once, with what to do; corrected, the same batch is written."""
    files.add({"k": "a", "v": "one"})
    with pytest.raises(Exception, match="topic 'no-such-topic' does not exist on this cluster"):
        files.run(files.frame().selectExpr(*PLAIN), make_sink(topic="no-such-topic"))
    files.run(files.frame().selectExpr(*PLAIN), make_sink())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sink_id": "a b"}, "sink_id is 'a b'; allowed are"),
        ({"topic": None}, "neither topic nor marker_topic is given"),
        ({"options": {"kafka.bootstrap.server": "x:1"}}, "did you mean kafka.bootstrap.servers"),
        ({"options": {"kafka.bootstrap.servers": "x:1", "kafka.acks": "1"}}, "kafka.acks must be"),
    ],
)
def test_a_wrong_setting_is_refused_when_the_sink_is_made(wrong, said):
    """Before any query starts: the setting, what was found, what is allowed."""
    given = {"sink_id": "s", "topic": "t", "options": {"kafka.bootstrap.servers": "x:1"}} | wrong
    with pytest.raises(ConfigurationError) as caught:
        KafkaSink(**given)
    assert said in str(caught.value)


def test_two_queries_on_one_sink_id(files, make_sink, kafka, topic, tmp_path):
    """The second query is refused, and the owner is named."""
    files.add({"k": "a", "v": "mine"})
    files.run(files.frame().selectExpr(*PLAIN), make_sink())
    (tmp_path / "other").mkdir()
    other = Files(files.spark, tmp_path / "other")
    other.add({"k": "a", "v": "yours"})
    with pytest.raises(Exception, match="TWOPHASE_OWNED_BY_ANOTHER"):
        other.run(other.frame().selectExpr(*PLAIN), make_sink())
    assert values(kafka.bootstrap_servers, topic) == [b"mine"]


def test_no_block_is_left_on_the_executors(files, make_sink, spark):
    """What was materialised for a batch is dropped with its end."""

    def kept():
        return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())

    # What tests before this one have left goes when the garbage collector comes.
    sink, before = make_sink(), kept()
    for number in range(3):
        files.add({"k": "a", "v": f"{number}"})
        files.run(files.frame().selectExpr(*PLAIN), sink)
        assert kept() <= before


def test_a_sink_without_a_query_says_so(spark, make_sink):
    """Called by hand, it does not guess whose batch it is."""
    frame = spark.createDataFrame([("a", "b")], "key string, value string")
    with pytest.raises(Exception, match=r"use it as writeStream\.foreachBatch\(sink\)"):
        make_sink()(frame, 0)


def test_an_error_of_the_users_own_plan(files, make_sink, kafka, topic):
    """It reaches Spark as it is; with the plan mended, the same batch is written once."""
    files.add({"k": "a", "v": "one"})
    with pytest.raises(Exception, match="a mistake of mine"):
        files.run(
            files.frame().selectExpr("k AS key", "raise_error('a mistake of mine') AS value"),
            make_sink(),
        )
    files.run(files.frame().selectExpr(*PLAIN), make_sink())
    assert values(kafka.bootstrap_servers, topic) == [b"one"]


def test_a_row_that_is_too_large_is_refused_by_name(files, make_sink, kafka, topic):
    """Key, size, limit and setting are in the sentence; nothing of the batch is visible."""
    files.add({"k": "the-key", "v": "small"})
    frame = files.frame().selectExpr("k AS key", "repeat('x', 2000000) AS value")
    with pytest.raises(Exception, match="TWOPHASE_ROW_REJECTED") as caught:
        files.run(frame, make_sink())
    for said in ("the-key", "1048576", "kafka.max.request.size", "max.message.bytes"):
        assert said in str(caught.value)
    assert values(kafka.bootstrap_servers, topic, committed=False) == []


@pytest.mark.parametrize("guarantee", ["at-least-once", "none"])
def test_less_than_exactly_once(guarantee, files, make_sink, kafka, topic):
    """Rows are there at once, in no transaction; a batch that Spark repeats is there twice."""
    records = []
    # Without a marker nobody asks for its topic.
    sink = make_sink(guarantee=guarantee, hooks=[records.append], marker_topic="not-there")
    files.add({"k": "a", "v": "row"})
    files.run(files.frame().selectExpr(*PLAIN), sink)
    files.forget_last_commit()
    files.run(files.frame().selectExpr(*PLAIN), sink)
    assert values(kafka.bootstrap_servers, topic) == [b"row"] * 2
    found = [(record.outcome, record.path, record.rows, record.guarantee) for record in records]
    assert found == [("written", "unrouted", 1, guarantee)] * 2
    job = sink.write(files.spark.sql("SELECT 'job' AS value"), run_id="r")
    assert (job.rows, job.failed_rows, job.run_id) == (1, 0, "r")
    options = KafkaOptions.parse({"kafka.bootstrap.servers": kafka.bootstrap_servers})
    with Wire(options) as wire:
        name = f"twophase.{records[0].sink_id}"
        assert list_transactions(wire, prefix=name) == ()


def test_a_guarantee_that_does_not_exist():
    """The three that do are named."""
    with pytest.raises(ConfigurationError, match="exactly-once, at-least-once, none"):
        KafkaSink(
            sink_id="s",
            topic="t",
            options={"kafka.bootstrap.servers": "x:1"},
            guarantee="twice",
        )


def test_one_record_for_each_batch(files, make_sink, caplog):
    """Written, then skipped: each has its record, and one line in the log."""
    records = []
    caplog.set_level("INFO", "twophase")
    files.add({"k": "a", "v": "row"})
    files.run(files.frame().selectExpr(*PLAIN), make_sink(hooks=[records.append]))
    files.forget_last_commit()
    files.run(files.frame().selectExpr(*PLAIN), make_sink(hooks=[records.append]))
    first, second = records
    assert (first.outcome, first.rows, first.recovery, first.batch) == (
        "committed",
        1,
        "started",
        0,
    )
    assert 0 < first.send_s + first.commit_s <= first.open_s <= first.total_s - first.encode_s
    assert (second.outcome, second.rows, second.recovery) == ("skipped", 0, "skipped")
    assert first.owner == second.owner
    lines = [line for line in caplog.messages if line.startswith("batch {")]
    assert [json.loads(line.removeprefix("batch "))["outcome"] for line in lines] == [
        "committed",
        "skipped",
    ]


def test_a_refusal_ends_with_the_command_that_resolves_it(files, make_sink, tmp_path):
    """With the real names in it, for a person to paste; and its record says that it failed."""
    records = []
    files.add({"k": "a", "v": "mine"})
    files.run(files.frame().selectExpr(*PLAIN), make_sink(hooks=[records.append]))
    (tmp_path / "other").mkdir()
    other = Files(files.spark, tmp_path / "other")
    other.add({"k": "a", "v": "yours"})
    with pytest.raises(Exception, match="TWOPHASE_OWNED_BY_ANOTHER"):
        other.run(other.frame().selectExpr(*PLAIN), make_sink(hooks=[records.append]))
    assert records[1].outcome == "failed"
    assert f"twophase sinks adopt {records[0].sink_id} --owner " in records[1].error


def test_two_sink_objects_of_one_id_in_one_batch_are_refused(files, make_sink, kafka, topic):
    """The second would find the first one's marker and lose its rows without a word."""
    files.add({"k": "a", "v": "first"})

    def both(frame, number):
        make_sink()(frame, number)
        make_sink()(frame.selectExpr("key", "'second' AS value"), number)

    with pytest.raises(Exception, match="TWOPHASE_WRONG_BATCH") as caught:
        files.run(files.frame().selectExpr(*PLAIN), both)
    assert "by another sink object with the same sink_id" in str(caught.value)
    assert values(kafka.bootstrap_servers, topic) == [b"first"]


def test_a_job_group_of_the_users_own(files, make_sink, kafka, topic):
    """Users label their jobs in foreachBatch; each run is known as a new one all the same."""
    sink = make_sink()

    def labelled(frame, number):
        frame.sparkSession.sparkContext.setJobGroup("etl", "the same for every run")
        sink(frame, number)

    for number in range(2):
        files.add({"k": "a", "v": f"{number}"})
        files.run(files.frame().selectExpr(*PLAIN), labelled)
    files.forget_last_commit()
    files.run(files.frame().selectExpr(*PLAIN), labelled)
    assert values(kafka.bootstrap_servers, topic) == [b"0", b"1"]


def test_a_checkpoint_that_is_not_the_querys_own(files, make_sink, tmp_path, kafka, topic):
    """Named before anything is written: one that is not there, and one of another query."""
    files.add({"k": "a", "v": "never"})
    with pytest.raises(Exception, match="must be the query's own checkpointLocation"):
        files.run(files.frame().selectExpr(*PLAIN), make_sink(checkpoint=str(tmp_path / "none")))
    other = tmp_path / "other"
    other.mkdir()
    (other / "metadata").write_text('{"id":"another"}')
    with pytest.raises(Exception, match="which belongs to query another"):
        files.run(files.frame().selectExpr(*PLAIN), make_sink(checkpoint=str(other)))
    assert values(kafka.bootstrap_servers, topic, committed=False) == []


def test_the_marker_follows_the_end_of_its_partition(files, make_sink, kafka, topic):
    """So that a lag monitor shows about nothing for the marker's group."""
    sink = make_sink()
    files.add(*({"k": f"{number}", "v": "x"} for number in range(50)))
    files.run(files.frame().selectExpr("v AS value", "0 AS partition"), sink)
    files.add({"k": "a", "v": "y"})
    files.run(files.frame().selectExpr("v AS value", "0 AS partition"), sink)
    options = KafkaOptions.parse({"kafka.bootstrap.servers": kafka.bootstrap_servers})
    with Wire(options) as wire:
        place = TopicPartition(topic, 0)
        found = read_offsets(wire, f"twophase.{sink._name.sink_id}", [place])[place]
    assert found.offset >= 50
