"""Kinds of queries, each disturbed in every batch: in the topic is what a quiet run would write."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import chain
from uuid import uuid4

import pytest
from kafka.admin import KafkaAdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sql
from support.readers import partitions, read, values
from support.streams import Files, forget_last_commit, run

from twophase.spark.engine import SparkEngine
from twophase.spark.kafka_sink import KafkaSink

SCHEMA = "k string, v string, t timestamp"
STARTS_MAX = 20
TROUBLE = "trouble on purpose"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Disturbed:
    """A sink that fails once in each batch after the first, after prepare and after commit in turn.

    Each start of the query has a new sink, as after a crash.
    """

    def __init__(self, make, monkeypatch):
        self.make, self.sink, self.batch = make, None, -1
        self.done = {}
        prepare = SparkEngine.prepare

        def failing(engine, attempt):
            summary = prepare(engine, attempt)
            self.fail_after("prepare")
            return summary

        monkeypatch.setattr(SparkEngine, "prepare", failing)

    def __call__(self, frame, batch):
        self.batch = batch
        self.sink(frame, batch)
        self.fail_after("commit")

    def fail_after(self, step):
        """Fail where this batch has not failed, and it is this step's turn."""
        due = ("prepare", "commit")[self.batch % 2]
        if self.batch > 0 and step == due and self.batch not in self.done:
            self.done[self.batch] = step
            raise RuntimeError(TROUBLE)

    def run(self, frame, checkpoint, mode):
        """Start the query until it has no more to do, then once more without its last commit."""
        for _ in range(STARTS_MAX):
            self.sink = self.make()
            try:
                run(frame, self, checkpoint, mode)
            except Exception as error:
                if TROUBLE not in str(error):
                    raise
            else:
                break
        forget_last_commit(checkpoint)
        self.sink = self.make()
        run(frame, self, checkpoint, mode)
        assert {"prepare", "commit"} <= set(self.done.values())


@pytest.fixture
def topic(request, kafka, make_topic):
    return make_topic(kafka, partitions=getattr(request, "param", 3))


@pytest.fixture
def path():
    """The path of all batches, unless a test has both."""
    return "routed"


BOTH_PATHS = pytest.mark.parametrize(
    "path",
    [
        pytest.param("driver", marks=pytest.mark.long),
        pytest.param("routed", marks=pytest.mark.long),
        "local",
    ],
)


@pytest.fixture
def make_sink(path, kafka, topic):
    """Make sinks of one id to the topic of the test."""
    sinks, sink_id = [], f"query-{uuid4().hex[:8]}"

    def make(**more):
        given = {"topic": topic, "sink_id": sink_id, "path": path} | more
        sink = KafkaSink(options={"kafka.bootstrap.servers": kafka.bootstrap_servers}, **given)
        sinks.append(sink)
        return sink

    yield make
    for sink in sinks:
        sink.close()


@pytest.fixture
def disturbed(make_sink, monkeypatch, tmp_path):
    """Run a frame to its end through one failure in each batch."""
    found = Disturbed(make_sink, monkeypatch)
    return lambda frame, mode="append": found.run(frame, tmp_path / "checkpoint", mode)


@pytest.fixture
def make_files(spark, tmp_path):
    """Make streaming sources."""
    return lambda name="in": Files(spark, tmp_path / name, SCHEMA)


@pytest.fixture
def setting(spark):
    """Set something in the session for one test."""
    before = {}

    def change(key, value):
        before[key] = spark.conf.get(key, None)
        spark.conf.set(key, value)

    yield change
    for key, value in before.items():
        spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def marked_batch(servers, sink_id):
    """Return the batch that the sink's marker names."""
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        (offsets,) = admin.list_group_offsets([f"twophase.{sink_id}"]).values()
    finally:
        admin.close()
    (found,) = offsets.values()
    return json.loads(found.metadata)["batch"]


def causes(error):
    """Return what Spark says under an error, down to its first cause."""
    found = [str(error)]
    while error is not None and len(found) < 9:
        found.append(str(error))
        error = getattr(error, "_cause", None) or error.__cause__
    return found


def at(seconds):
    """Return a time in the form in which JSON has it."""
    return (datetime(2026, 11, 15, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat()


def events(text):
    """Return rows from `key@second` words."""
    pairs = (word.split("@") for word in text.split())
    return [{"k": key, "t": at(int(second))} for key, second in pairs]


@BOTH_PATHS
def test_drop_duplicates(make_files, disturbed, kafka, topic):
    """Each key once, in whichever batch it came first."""
    files = make_files()
    for keys in ("abca", "bcd", "ae", "fa", "gg"):
        files.add(*({"k": key} for key in keys))
    disturbed(files.frame().dropDuplicates(["k"]).selectExpr("k AS key", "k AS value"))
    assert sorted(values(kafka.bootstrap_servers, topic)) == [b"%c" % key for key in b"abcdefg"]


def test_without_executing_what_is_skipped(make_files, disturbed, monkeypatch):
    """A driver that does nothing for a batch that is in the topic leaves the state behind."""
    monkeypatch.setattr(SparkEngine, "execute", lambda _engine: None)
    files = make_files()
    for keys in ("ab", "bc", "cd", "de"):
        files.add(*({"k": key} for key in keys))
    frame = files.frame().dropDuplicates(["k"]).selectExpr("k AS key", "k AS value")
    with pytest.raises(StreamingQueryException) as caught:
        disturbed(frame)
    assert "STATE_STORE_COMMIT_VALIDATION_FAILED" in str(causes(caught.value))


def test_drop_duplicates_within_a_watermark(make_files, disturbed, kafka, topic):
    """A key comes again only after the watermark has passed its first row by the delay."""
    files = make_files()
    for text in ("a@0 a@1 b@2", "a@5 b@6", "c@100", "a@101 c@104", "a@102 b@103"):
        files.add(*events(text))
    frame = files.frame().withWatermark("t", "10 seconds").dropDuplicatesWithinWatermark(["k"])
    disturbed(frame.selectExpr("k AS key", "k AS value"))
    assert sorted(values(kafka.bootstrap_servers, topic)) == [b"a", b"a", b"b", b"b", b"c"]


@BOTH_PATHS
def test_windows_with_a_watermark(make_files, disturbed, kafka, topic, setting):
    """Counts of ten seconds each, when their end has passed; the state lies in RocksDB."""
    setting("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    files = make_files()
    texts = ("a@0 a@3 b@4", "a@9 a@10", "b@25 a@8", "a@31", "z@1000", "z@1001")
    for text in texts:
        files.add(*events(text))
    frame = (
        files.frame()
        .withWatermark("t", "20 seconds")
        .groupBy(sql.window("t", "10 seconds").alias("w"), "k")
        .count()
        .selectExpr("k AS key", "concat(k, '@', unix_seconds(w.start), '=', count) AS value")
    )
    disturbed(frame)
    begin = int(datetime(2026, 11, 15, tzinfo=UTC).timestamp())
    words = [word.split("@") for text in texts[:4] for word in text.split()]
    counts = Counter((key, begin + int(second) // 10 * 10) for key, second in words)
    expected = sorted(f"{key}@{start}={count}".encode() for (key, start), count in counts.items())
    assert sorted(values(kafka.bootstrap_servers, topic)) == expected


def test_a_join_of_two_streams(make_files, disturbed, kafka, topic):
    """Each pair within five seconds of each other once, in whichever batch its second half came."""
    left, right = make_files("left"), make_files("right")
    texts = [("a@0 b@1", "b@2"), ("c@3", "a@4"), ("a@6 b@9", "c@20"), ("c@21", "c@18 b@5")]
    for one, other in texts:
        left.add(*events(one))
        right.add(*events(other))
    one = left.frame().withWatermark("t", "1 minute").select("k", sql.col("t").alias("lt"))
    other = right.frame().withWatermark("t", "1 minute").selectExpr("k AS rk", "t AS rt")
    near = sql.expr("k = rk AND abs(unix_seconds(lt) - unix_seconds(rt)) <= 5")
    joined = one.join(other, near)
    disturbed(
        joined.selectExpr(
            "k AS key", "concat(k, unix_seconds(lt) % 60, '-', unix_seconds(rt) % 60) AS value"
        )
    )
    lefts, rights = (
        [row.split("@") for pair in texts for row in pair[side].split()] for side in (0, 1)
    )
    expected = sorted(
        f"{key}{lt}-{rt}".encode()
        for key, lt in lefts
        for other_key, rt in rights
        if key == other_key and abs(int(lt) - int(rt)) <= 5
    )
    assert len(expected) > 4
    assert sorted(values(kafka.bootstrap_servers, topic)) == expected


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_adaptive_execution(adaptive, make_files, disturbed, kafka, topic, setting):
    """A shuffle that Spark may or may not merge at run time is written once either way."""
    setting("spark.sql.adaptive.enabled", adaptive)
    setting("spark.sql.shuffle.partitions", "7")
    files = make_files()
    for batch in range(4):
        files.add(*({"k": f"{key}", "v": f"{batch}-{key}"} for key in range(50)))
    disturbed(files.frame().repartition("k").selectExpr("k AS key", "v AS value"))
    rows = read(kafka.bootstrap_servers, topic)
    by_key = {f"{key}".encode(): [] for key in range(50)}
    for row in rows:
        by_key[row.key].append(row.value)
    assert all(found == [b"%d-%b" % (n, key) for n in range(4)] for key, found in by_key.items())


@pytest.mark.parametrize("topic", [1, 200], indirect=True)
def test_few_and_many_partitions(make_files, disturbed, kafka, topic):
    """A topic with one partition, and one with more of them than Spark has slots."""
    files = make_files()
    names = [[f"{batch}-{number}" for number in range(1_000)] for batch in range(3)]
    for batch in names:
        files.add(*({"k": name, "v": name} for name in batch))
    disturbed(files.frame().selectExpr("k AS key", "v AS value"))
    rows = read(kafka.bootstrap_servers, topic)
    assert sorted(row.value.decode() for row in rows) == sorted(chain(*names))
    assert len({row.partition for row in rows}) == partitions(kafka.bootstrap_servers, topic)


@BOTH_PATHS
def test_batches_without_rows(make_files, make_sink, kafka, topic, tmp_path):
    """A batch without rows is a batch: the marker moves on, and is found after a crash."""
    files, checkpoint, sink_id = make_files(), tmp_path / "checkpoint", f"empty-{topic}"
    frame = files.frame().where("v IS NOT NULL").selectExpr("k AS key", "v AS value")
    for number, row in enumerate([{"v": "one"}, {"k": "nothing"}, {"k": "nothing"}, {"v": "two"}]):
        files.add(row)
        run(frame, make_sink(sink_id=sink_id), checkpoint)
        assert marked_batch(kafka.bootstrap_servers, sink_id) == number
        assert forget_last_commit(checkpoint) == number
        run(frame, make_sink(sink_id=sink_id), checkpoint)
    assert sorted(values(kafka.bootstrap_servers, topic)) == [b"one", b"two"]
