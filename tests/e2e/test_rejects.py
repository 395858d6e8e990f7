"""Rows that no retry can write, on every path: dead letters beside the rows, each once."""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from support.readers import read, values
from support.streams import Files, forget_last_commit, run

from twophase import KafkaSink
from twophase.errors import AccessDenied, BlockRefused, ConfigurationError, RowRejected
from twophase.kafka.admin import TransactionState, list_transactions
from twophase.kafka.letters import PREFIX
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wires import shared_wire

QUERY = Path(__file__).parent / "reject_query.py"
PATHS = {
    "driver": {"path": "driver"},
    "routed": {"path": "routed"},
    "local": {"path": "local"},
    "task": {"scope": "task"},
    "at-least-once": {"guarantee": "at-least-once"},
    "none": {"guarantee": "none"},
}


class Place:
    """A topic, its dead-letter topic, and sinks of one id."""

    def __init__(self, cluster, topic, dead):
        self.servers, self.topic, self.dead = cluster.bootstrap_servers, topic, dead
        self.sink_id = f"rejects-{uuid4().hex[:8]}"
        self.records, self.sinks = [], []

    def sink(self, options=(), **more):
        given = {
            "sink_id": self.sink_id,
            "topic": self.topic,
            "on_reject": "dead-letter",
            "dead_letter_topic": self.dead,
            "hooks": [self.records.append],
        }
        options = {"kafka.bootstrap.servers": self.servers, **dict(options)}
        self.sinks.append(KafkaSink(options=options, **given | more))
        return self.sinks[-1]

    def written(self):
        return sorted(values(self.servers, self.topic))

    def letters(self):
        """Every dead letter's value and what its headers say."""
        return [
            (row.value, {key.removeprefix(PREFIX): value.decode() for key, value in row.headers})
            for row in read(self.servers, self.dead)
        ]

    def reasons(self):
        return Counter(said["reason"] for _, said in self.letters())

    def counted(self):
        return [(each.rows, each.rejected_rows, each.attempts) for each in self.records]

    def set(self, topic=None, **configs):
        """Change settings of a topic, as an admin does."""
        entries = [
            ConfigEntry(
                name.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET
            )
            for name, value in configs.items()
        ]
        resource = ConfigResource(
            ResourceType.TOPIC, topic or self.topic, incremental_configs=entries
        )
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.incremental_alter_configs([resource])[resource].result(30)

    def check_nothing_open(self):
        wire = shared_wire(KafkaOptions.parse({"kafka.bootstrap.servers": self.servers}))
        prefix, states = f"twophase.{self.sink_id}", (TransactionState.ONGOING,)
        assert list_transactions(wire, prefix=prefix, states=states) == ()


@pytest.fixture
def make_place(make_topic):
    """Make places on a cluster: `make_place(cluster, **configs)` of the topic."""
    places = []

    def make(cluster, **configs):
        topic, dead = make_topic(cluster, 3, **configs), make_topic(cluster, 2)
        places.append(Place(cluster, topic, dead))
        return places[-1]

    yield make
    for place in places:
        for sink in place.sinks:
            sink.close()


@pytest.fixture
def place(kafka, make_place):
    return make_place(kafka)


def job_settings(path, tmp_path):
    return PATHS[path] | ({"decisions": str(tmp_path / "log")} if path == "task" else {})


def long(path):
    return pytest.param(path, marks=pytest.mark.long)


@pytest.mark.parametrize(
    "path",
    ["routed", long("local"), long("driver"), long("task"), long("at-least-once"), long("none")],
)
def test_every_path(path, spark, place, tmp_path):
    """Rows with a wrong topic, partition or size are letters, all others where they belong."""
    frame = spark.range(200, numPartitions=2).selectExpr(
        "CAST(id AS STRING) AS key",
        "IF(id % 10 = 2, repeat(CAST(id AS STRING), 9000), CAST(id AS STRING)) AS value",
        "CASE id % 10 WHEN 0 THEN 'twophase-not-there' WHEN 3 THEN NULL WHEN 4 THEN 'a b'"
        f" ELSE '{place.topic}' END AS topic",
        "IF(id % 10 = 1, 99, NULL) AS partition",
    )
    small = {"kafka.max.request.size": 5_000}
    settings = job_settings(path, tmp_path) | {"topic": None, "marker_topic": place.topic}
    record = place.sink(small, **settings).write(frame, run_id="monday")
    assert (record.rows, record.rejected_rows, record.failed_rows) == (100, 100, 0)
    assert record.path == {"at-least-once": "unrouted", "none": "unrouted"}.get(path, path)
    assert place.written() == sorted(b"%d" % at for at in range(200) if at % 10 > 4)
    letters = place.letters()
    assert place.reasons() == {
        "topic-unknown": 20,
        "topic-null": 20,
        "topic-invalid": 20,
        "partition-out-of-range": 20,
        "too-large": 20,
    }
    # A number is itself, or what the too large value begins with, again and again.
    found = [value[: len(value) // 9_000 or None] for value, _ in letters]
    assert sorted(found) == sorted(b"%d" % at for at in range(200) if at % 10 <= 4)
    wrong = next(said for _, said in letters if said["reason"] == "partition-out-of-range")
    assert (wrong["topic"], wrong["partition"]) == (place.topic, "99")
    assert wrong["message"] == "partition is 99; the topic has partitions 0 to 2"
    assert (wrong["sink"], wrong["batch"], wrong["run"]) == (place.sink_id, "0", "monday")


@pytest.mark.long
def test_the_default_fails_and_names_the_row(spark, place):
    """One sentence, nothing written, no letter."""
    frame = spark.range(3).selectExpr("CAST(id AS STRING) AS value", "9 AS partition")
    sink = place.sink(on_reject="fail", dead_letter_topic=None)
    with pytest.raises(RowRejected, match="partition is 9; the topic has partitions 0 to 2"):
        sink.write(frame, run_id="r")
    assert (place.written(), place.letters()) == ([], [])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"on_reject": "drop"}, "on_reject='drop' is not allowed; write one of fail, dead-letter"),
        ({"on_reject": "fail"}, "dead_letter_topic is 'd', and on_reject is fail"),
        ({"dead_letter_topic": None}, "no dead_letter_topic is given"),
        ({"dead_letter_topic": "a b"}, "dead_letter_topic is 'a b'; allowed are 1 to 249"),
        ({"dead_letter_topic": "t"}, "which is the sink's own topic"),
    ],
)
@pytest.mark.parametrize("path", ["driver", "task"])
def test_settings_that_do_not_fit(path, given, said):
    """One sentence before anything is done."""
    given = {"on_reject": "dead-letter", "dead_letter_topic": "d"} | PATHS[path] | given
    with pytest.raises(ConfigurationError, match=said):
        KafkaSink(sink_id="s", topic="t", options={"kafka.bootstrap.servers": "nowhere:1"}, **given)


@pytest.mark.parametrize(
    "path",
    ["driver", long("routed"), long("local"), long("task"), long("at-least-once"), long("none")],
)
def test_a_dead_letter_topic_that_is_not_there(path, spark, place, tmp_path):
    """Said before the plan is executed or the id is taken."""
    settings = job_settings(path, tmp_path) | {"dead_letter_topic": "twophase-no-letters"}
    with pytest.raises(ConfigurationError, match="topic 'twophase-no-letters' does not exist"):
        place.sink(**settings).write(spark.range(1).selectExpr("'v' AS value"), run_id="r")
    place.check_nothing_open()
    assert place.written() == []


SCHEMA = "v string, p int, n int"
NOISY = ("coalesce(v, CAST(n AS STRING)) AS key", "v AS value", "p AS partition")


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path / "in", SCHEMA)


def large(number, size=6_000):
    """A text that no codec makes small."""
    return (f"{number}-" + "".join(uuid4().hex for _ in range(size // 32 + 1)))[:size]


def lowered(place, sink, number, **configs):
    """A function for foreachBatch: an admin changes the topic before the batch of this number."""

    def write(frame, batch_id):
        if batch_id == number:
            place.set(**configs)
        sink(frame, batch_id)

    return write


@pytest.mark.parametrize("path", ["driver", long("routed"), long("local"), long("task")])
def test_a_topic_s_limit_is_lowered_under_a_running_query(path, files, place, tmp_path):
    """The broker refuses a block; only rows that alone are too large become letters.

    The batch is written in a second attempt, later ones in their first. A limit that is raised
    again lets large rows through.
    """
    for number in range(4):
        rows = [{"v": f"{number}-{at}"} for at in range(60)]
        files.add(*rows, {"v": large(number)}, {"v": f"{number}-x", "p": 7})
    sink = place.sink(**PATHS[path])

    def write(frame, batch_id):
        if batch_id == 1:
            place.set(max_message_bytes=1_500)
        if batch_id == 3:
            place.set(max_message_bytes=1_000_000)
        sink(frame, batch_id)

    run(files.frame().selectExpr(*NOISY), write, tmp_path / "check")
    again = 1 if path == "task" else 2
    assert place.counted() == [(61, 1, 1), (60, 2, again), (60, 2, 1), (61, 1, 1)]
    assert place.reasons() == {"partition-out-of-range": 4, "too-large": 2}
    written = Counter(value[:12] for value in place.written())
    assert max(written.values()) == 1
    assert len(written) == 60 * 4 + 2
    too_large = [said["message"] for _, said in place.letters() if said["reason"] == "too-large"]
    assert all(f"topic '{place.topic}' takes 1500" in text for text in too_large)
    place.check_nothing_open()


@pytest.mark.long
@pytest.mark.parametrize("path", ["driver", "routed", long("local"), "task", "at-least-once"])
@pytest.mark.parametrize("cluster", ["kafka", "kafka39"])
def test_what_else_a_broker_refuses(path, cluster, spark, make_place, tmp_path, request):
    """Timestamps that a topic does not take, and rows without a key in a compacted one."""
    settings = job_settings(path, tmp_path)
    configs = {"message_timestamp_after_max_ms": 3_600_000, "cleanup_policy": "compact"}
    place = make_place(request.getfixturevalue(cluster), **configs)
    frame = spark.range(100, numPartitions=2).selectExpr(
        "IF(id % 10 = 0, NULL, CAST(id AS STRING)) AS key",
        "CAST(id AS STRING) AS value",
        "IF(id % 10 = 1, now() + INTERVAL 9 DAYS, now()) AS timestamp",
    )
    record = place.sink(**settings).write(frame, run_id="r")
    assert (record.rows, record.rejected_rows) == (80, 20)
    assert place.reasons() == {"key-missing": 10, "timestamp-not-allowed": 10}
    # At-least-once sends again what the first try had sent when it was refused.
    seen = set(place.written()) if path == "at-least-once" else place.written()
    assert sorted(seen) == sorted(b"%d" % at for at in range(100) if at % 10 > 1)


@pytest.mark.long
@pytest.mark.parametrize("path", ["driver", "routed", long("local"), "task", "at-least-once"])
def test_a_refusal_that_settings_do_not_explain_fails_the_batch(
    path, spark, kafka, make_place, tmp_path
):
    """After one more attempt, by name: here the broker unpacks what was small enough packed."""
    place = make_place(kafka, compression_type="uncompressed", max_message_bytes=5_000)
    frame = spark.range(2).selectExpr("repeat(CAST(id AS STRING), 50000) AS value")
    with pytest.raises(BlockRefused, match="do not tell which row it is, or may not be read"):
        place.sink(**job_settings(path, tmp_path)).write(frame, run_id="r")
    place.check_nothing_open()
    assert (place.written(), place.letters()) == ([], [])


@pytest.mark.long
@pytest.mark.parametrize("path", ["driver", "routed", long("local"), "task"])
def test_a_row_that_fits_nowhere_fails_the_batch(path, spark, place, tmp_path):
    """What is said of it alone is more than the dead-letter topic takes: nothing is dropped."""
    place.set(place.dead, max_message_bytes=200)
    frame = spark.range(1).selectExpr("'v' AS value", "9 AS partition")
    with pytest.raises(RowRejected, match="so that it fits nowhere"):
        place.sink(**job_settings(path, tmp_path)).write(frame, run_id="r")
    place.check_nothing_open()
    assert (place.written(), place.letters()) == ([], [])


@pytest.mark.long
def test_a_value_too_large_for_the_dead_letter_topic_is_cut(spark, place):
    """What is left of it, how long it was and its SHA-256; a topic that takes more has it whole."""
    frame = spark.range(1).selectExpr("'k' AS key", f"'{large(0, 30_000)}' AS value")
    options = {"kafka.max.request.size": 10_000}
    for limit in (5_000, 50_000):
        place.set(place.dead, max_message_bytes=limit)
        record = place.sink(options, path="driver").write(frame, run_id=f"r-{limit}")
        assert (record.rows, record.rejected_rows) == (0, 1)
    (cut, said), (whole, _) = sorted(place.letters(), key=lambda letter: len(letter[0]))
    assert len(whole) == 30_000
    assert 4_000 < len(cut) < 5_000
    assert whole.startswith(cut)
    assert said["value.bytes"] == "30000"
    assert said["value.sha256"] == hashlib.sha256(whole).hexdigest()


@pytest.mark.long
def test_a_batch_that_spark_runs_again(files, place, tmp_path):
    """The marker tells of letters as of rows: neither is written twice."""
    files.add({"v": "good"}, {"v": "bad", "p": 7})
    for _ in range(2):
        run(files.frame().selectExpr(*NOISY), place.sink(path="driver"), tmp_path / "check")
        forget_last_commit(tmp_path / "check")
    assert [each.outcome for each in place.records] == ["committed", "skipped"]
    assert place.written() == [b"good"]
    assert [value for value, _ in place.letters()] == [b"bad"]


def allow(servers, topic, *operations):
    """Let everybody do this to a topic, and nothing else."""
    admin = AdminClient({"bootstrap.servers": servers})
    where = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
    bindings = [AclBinding(*where, each, AclPermissionType.ALLOW) for each in operations]
    for done in admin.create_acls(bindings).values():
        done.result(30)


AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.mark.long
def test_rights_that_are_missing_are_not_the_row_s_fault(
    spark, private_kafka, make_place, make_topic
):
    """A topic that may not be seen fails the batch; settings that may not be read do, by name."""
    cluster = private_kafka(properties=AUTHORIZER)
    place, hidden = make_place(cluster, max_message_bytes=1_500), make_topic(cluster)
    writing = AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.READ
    allow(place.servers, place.topic, *writing)
    allow(place.servers, place.dead, *writing)
    allow(place.servers, hidden, AclOperation.CREATE)
    frame = spark.range(2).selectExpr("CAST(id AS STRING) AS value", f"'{hidden}' AS topic")
    sink = place.sink(topic=None, marker_topic=place.topic, path="driver")
    with pytest.raises(AccessDenied, match=f"topic '{hidden}' may not be described"):
        sink.write(frame, run_id="hidden")
    frame = spark.createDataFrame([("good",), (large(0),)], "value string").coalesce(1)
    frame = frame.union(spark.range(1).selectExpr("'bad'")).selectExpr(
        "value", "IF(value = 'bad', 9, 0) AS partition"
    )
    sink = place.sink(path="driver")
    with pytest.raises(BlockRefused, match="grant DESCRIBE_CONFIGS on the topic"):
        sink.write(frame, run_id="r")
    assert (place.written(), place.letters()) == ([], [])
    allow(place.servers, place.topic, AclOperation.DESCRIBE_CONFIGS)
    record = sink.write(frame, run_id="r")
    assert (record.rows, record.rejected_rows) == (1, 2)
    assert place.written() == [b"good"]
    assert place.reasons() == {"too-large": 1, "partition-out-of-range": 1}


def start(place, tmp_path, settings, **more):
    """Run the query over the files in a process of its own; return its exit code and its words."""
    given = {
        "servers": place.servers,
        "source": str(tmp_path / "in"),
        "schema": SCHEMA,
        "columns": NOISY,
        "checkpoint": str(tmp_path / "check"),
        "death": None,
        "sink": {
            "sink_id": place.sink_id,
            "topic": place.topic,
            "on_reject": "dead-letter",
            "dead_letter_topic": place.dead,
        }
        | settings,
    }
    done = subprocess.run(
        [sys.executable, str(QUERY), json.dumps(given | more)],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    return done.returncode, done.stderr[-3000:]


@pytest.mark.long
def test_a_refusal_reaches_a_driver_whose_spark_repeats_tasks(kafka, make_place, files, tmp_path):
    """On a cluster a failed task is started again, and the driver is told its last words only."""
    place = make_place(kafka, max_message_bytes=1_500)
    files.add({"v": "good"}, {"v": large(0)})
    code, said = start(place, tmp_path, PATHS["routed"], master="local[2,4]")
    assert code == 0, said
    assert place.written() == [b"good"]
    assert place.reasons() == {"too-large": 1}


DEATHS = ["after send", "after write_marker", "after commit"]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", ["driver", "routed", long("local"), "task"])
def test_killed_in_the_middle_of_a_batch(path, kafka, make_place, tmp_path, spark):
    """By -9, with letters sent and not committed, and committed and not noted: both topics once."""
    place = make_place(kafka)
    files = Files(spark, tmp_path / "in", SCHEMA)
    for number in range(len(DEATHS) + 2):
        rows = [{"v": f"{number}-{at}", "p": 7 if at % 5 == 0 else None} for at in range(40)]
        files.add(*rows)
    uncommitted = 0
    for at, death in enumerate([*DEATHS, None]):
        code, said = start(place, tmp_path, PATHS[path], death=death, batch=at + 1)
        assert code == (0 if death is None else -9), said
        seen = len(read(place.servers, place.dead, committed=False))
        uncommitted = max(uncommitted, seen - len(read(place.servers, place.dead)))
    batches = range(len(DEATHS) + 2)
    assert uncommitted, "no letter was ever sent and not committed"
    assert Counter(place.written()) == Counter(
        f"{number}-{at}".encode() for number in batches for at in range(40) if at % 5
    )
    assert Counter(value for value, _ in place.letters()) == Counter(
        f"{number}-{at}".encode() for number in batches for at in range(0, 40, 5)
    )
    for value, said in place.letters():
        assert said["batch"] == value.decode().split("-")[0]
    place.check_nothing_open()
