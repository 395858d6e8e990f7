"""KafkaSink over a real Spark Connect server: the same rows once, or a refusal by name."""

import json
import pickle
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.readers import values
from support.streams import Files, forget_last_commit

from twophase.errors import ConfigurationError
from twophase.spark.kafka_sink import KafkaSink

# One server for all of them, also where tests run in several processes.
PROGRAM = Path(__file__).with_name("connect_client.py")
ANSWER = "ANSWER "
ANSWER_S = 150
# Speculation makes every send of this server a barrier stage.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.speculation": "true",
}
PLAIN = ("k AS key", "v AS value")
SCHEMA = "k string, v string, topic string"


class Client:
    """A program that has a Connect server and session, and takes orders."""

    def __init__(self, log, settings=None):
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(settings or SETTINGS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self.answers = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        assert self._next() == "ready"

    def ask(self, name, **arguments):
        """Give one order and wait for its answer."""
        self.process.stdin.write(json.dumps([name, arguments]) + "\n")
        self.process.stdin.flush()
        return self._next()

    def close(self):
        """End it as its orders end, or else by force."""
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def _next(self):
        answer = self.answers.get(timeout=ANSWER_S)
        assert answer is not None, f"the client has ended: {self.process.wait(10)}"
        return json.loads(answer)

    def _listen(self):
        for line in self.process.stdout:
            # Spark's own progress bar may stand in front of an answer.
            if ANSWER in line:
                self.answers.put(line.partition(ANSWER)[2])
        self.answers.put(None)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with (tmp_path_factory.mktemp("client") / "log").open("w") as log:
        client = Client(log)
        yield client
        client.close()


class Query:
    """One query over a folder of files, run again and again over Connect."""

    def __init__(self, client, folder, servers, topic):
        self.client, self.folder, self.topic, self.id = client, folder, topic, ""
        # A path that Spark's readers would take for hidden and for a pattern.
        self.checkpoint = folder / "_a [checkpoint] {of,mine}=1"
        self.files = Files(None, folder / "in", SCHEMA)
        self.sink = {
            "sink_id": f"connect-{topic}",
            "topic": topic,
            "options": {"kafka.bootstrap.servers": servers},
            "owner": "the-query",
            "checkpoint": str(self.checkpoint),
        }

    def run(self, columns=PLAIN, die=None, source=None, mode="stream", **changed):
        """Run until the source is used up; return batch, outcome, path, rows, process; error."""
        options = {"maxFilesPerTrigger": "1"}
        files = {"format": "json", "schema": SCHEMA, "path": str(self.files.folder)}
        done = self.client.ask(
            mode,
            source=source or files | {"options": options},
            columns=columns,
            checkpoint=str(self.checkpoint),
            sink=self.sink | changed,
            notes=str(self.folder / "notes"),
            die=die,
        )
        assert done["ended"]
        self.id = done["id"]
        return done["notes"], done["error"]


@pytest.fixture
def topic(kafka, make_topic):
    return make_topic(kafka, partitions=2)


@pytest.fixture
def query(client, tmp_path, kafka, topic):
    return Query(client, tmp_path, kafka.bootstrap_servers, topic)


@pytest.mark.long
def test_batch_after_batch(query, kafka, topic):
    """Every file once, by either path; each run has a process of its own, also for its hooks."""
    for number in range(2):
        query.files.add({"k": "a", "v": f"row-{number}"})
    first, error = query.run(path="routed")
    assert error is None
    for number in range(2, 5):
        query.files.add({"k": "a", "v": f"row-{number}"})
    second, error = query.run(path="driver")
    assert error is None
    assert [note[:4] for note in first] == [[n, "committed", "routed", 1] for n in (0, 1)]
    assert [note[:4] for note in second] == [[n, "committed", "driver", 1] for n in (2, 3, 4)]
    assert len({note[4] for note in first}) == len({note[4] for note in second}) == 1
    assert first[0][4] != second[0][4]
    assert values(kafka.bootstrap_servers, topic) == [f"row-{n}".encode() for n in range(5)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("when", "outcome"),
    [("before", "committed"), pytest.param("after", "skipped", marks=pytest.mark.long)],
)
def test_the_process_of_the_query_dies(when, outcome, query, kafka, topic):
    """By kill -9, right before or after the commit: the next run has each row in the topic once."""
    query.files.add({"k": "a", "v": "once"})
    notes, error = query.run(path="driver", die=when)
    assert error is not None
    assert notes == []
    query.files.add({"k": "a", "v": "next"})
    notes, error = query.run(path="routed")
    assert error is None
    assert [note[:2] for note in notes] == [[0, outcome], [1, "committed"]]
    assert values(kafka.bootstrap_servers, topic) == [b"once", b"next"]


@pytest.mark.long
def test_between_classic_mode_and_connect(query, kafka, topic):
    """With its id as the owner a query finds its marker over Connect, and back in classic mode."""
    query.files.add({"k": "a", "v": "once"})
    notes, error = query.run(mode="stream_classic", owner=None, checkpoint=None)
    assert error is None
    owner = query.id
    assert [note[:2] for note in notes] == [[0, "committed"]]
    forget_last_commit(query.checkpoint)
    _, error = query.run(owner="another-query")
    assert "TWOPHASE_OWNED_BY_ANOTHER" in error
    assert owner in error
    query.files.add({"k": "a", "v": "next"})
    notes, error = query.run(owner=owner)
    assert error is None
    assert [note[:2] for note in notes] == [[0, "skipped"], [1, "committed"]]
    forget_last_commit(query.checkpoint)
    notes, error = query.run(mode="stream_classic", owner=None, checkpoint=None)
    assert error is None
    assert [note[:2] for note in notes] == [[1, "skipped"]]
    assert values(kafka.bootstrap_servers, topic) == [b"once", b"next"]


@pytest.mark.long
def test_a_name_is_an_owner_in_classic_mode_too(query, kafka, topic):
    """A query that was named over Connect keeps its name where it moves."""
    query.files.add({"k": "a", "v": "once"})
    query.run(mode="stream_classic")
    forget_last_commit(query.checkpoint)
    notes, error = query.run(mode="stream_classic")
    assert error is None
    assert [note[:2] for note in notes] == [[0, "skipped"]]
    forget_last_commit(query.checkpoint)
    _, error = query.run(mode="stream_classic", owner=None)
    assert "TWOPHASE_OWNED_BY_ANOTHER" in error
    assert "the-query" in error
    assert values(kafka.bootstrap_servers, topic) == [b"once"]


# These brokers are not there: a refusal comes before the sink talks to Kafka.
NOBODY = {"kafka.bootstrap.servers": "127.0.0.1:9", "kafka.max.block.ms": "1000"}


@pytest.mark.long
def test_a_query_without_an_owner_is_refused_by_name(query):
    """The sentence reaches the one who waits for the query."""
    query.files.add({"k": "a", "v": "never"})
    notes, error = query.run(owner=None, options=NOBODY)
    assert "TWOPHASE_CONFIGURATION: owner must be given to the sink: over Spark Connect" in error
    assert notes == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"owner": None}, "owner must be given to the sink: over Spark Connect it cannot see"),
        ({"checkpoint": None}, "checkpoint must be given to the sink: over Spark Connect"),
        ({"owner": None, "checkpoint": None}, "owner and checkpoint must be given to the sink"),
        ({"checkpoint": "/not/there"}, "/not/there/offsets/7 cannot be read ([PATH_NOT_FOUND]"),
    ],
)
def test_what_is_missing_is_named(changed, said, client, query):
    """In one sentence of its own, before the sink talks to Kafka."""
    kind, found = client.ask("call", number=7, sink=query.sink | {"options": NOBODY} | changed)
    assert kind == "ConfigurationError"
    assert found.startswith(f"TWOPHASE_CONFIGURATION: {said}")
    assert "\n" not in found


@pytest.mark.long
def test_kafka_to_kafka_and_a_topic_for_each_row(query, kafka, make_topic, topic):
    """A small range of offsets goes through the driver unforced; topics come from the column."""
    source, other = make_topic(kafka), make_topic(kafka)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(30):
        producer.produce(source, key=[topic, other][number % 2], value=f"{number}")
    assert producer.flush(30) == 0
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "10",
    }
    columns = ("value", "CAST(key AS STRING) AS topic")
    notes, error = query.run(
        columns,
        source={"format": "kafka", "options": options},
        topic=None,
        marker_topic=topic,
        source_group=f"lag-{topic}",
    )
    assert error is None
    assert [note[:4] for note in notes] == [
        [0, "committed", "routed", 10],
        [1, "committed", "driver", 10],
        [2, "committed", "driver", 10],
    ]
    for parity, name in enumerate((topic, other)):
        found = sorted(values(kafka.bootstrap_servers, name), key=int)
        assert found == [f"{number}".encode() for number in range(parity, 30, 2)]


@pytest.mark.long
@pytest.mark.parametrize("path", ["driver", "routed"])
def test_batch_jobs(path, client, query, kafka, topic):
    """A run is written once, whoever repeats it; nothing else needs to be given."""
    given = {name: query.sink[name] for name in ("sink_id", "topic", "options")} | {"path": path}
    columns = ("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")
    order = {"rows": 500, "columns": columns, "sink": given, "run_id": "2026-11-16"}
    assert client.ask("write", **order) == {"outcome": "committed", "path": path, "rows": 500}
    assert client.ask("write", **order) == {"outcome": "skipped", "path": "", "rows": 0}
    found = sorted(values(kafka.bootstrap_servers, topic), key=int)
    assert found == [f"{number}".encode() for number in range(500)]


@pytest.mark.long
@pytest.mark.parametrize("path", ["driver", "routed"])
def test_our_own_errors_come_through(path, client, query, kafka, topic):
    """What a task raises on an executor is our own error in the client, with all it says."""
    given = {name: query.sink[name] for name in ("sink_id", "topic", "options")} | {"path": path}
    columns = ("'the-key' AS key", "repeat('x', 2000000) AS value")
    done = client.ask("write", rows=1, columns=columns, sink=given, run_id="r")
    kind, said = done["error"]
    assert kind == "RowRejected"
    for word in ("TWOPHASE_ROW_REJECTED", "the-key", "kafka.max.request.size"):
        assert word in said
    assert values(kafka.bootstrap_servers, topic, committed=False) == []


@pytest.mark.long
def test_what_the_settings_of_the_server_say(client):
    """Speculation, which asks for a barrier, and the slots, of which local[2] has two."""
    assert client.ask("seen") == [True, 2]


@pytest.mark.long
def test_the_server_lets_go_of_the_blocks(client, query):
    """The client cannot drop what was materialised: the server's own garbage collector does."""
    given = {name: query.sink[name] for name in ("sink_id", "topic", "options")}
    order = {"rows": 9, "columns": ("CAST(id AS STRING) AS value",), "run_id": "r"}
    done = client.ask("write", sink=given | {"path": "routed"}, **order)
    assert done == {"outcome": "committed", "path": "routed", "rows": 9}
    assert client.ask("persisted", within_s=30) == 0


def test_a_sink_travels_as_its_settings(query):
    """What was sent away begins anew: another run, no connection, its own lock; and it works."""
    sink = KafkaSink(**query.sink)
    there = pickle.loads(pickle.dumps(sink))
    same = vars(sink).keys() - {"_machine", "_one_call", "_made", "_calls", "_planned"}
    assert {name: vars(there)[name] for name in same} == {name: vars(sink)[name] for name in same}
    assert there._made.object_id != sink._made.object_id
    assert there._machine is not sink._machine
    with there._one_call:
        assert repr(there) == repr(sink)


@pytest.mark.parametrize("owner", ["", "a b", "x" * 101, 7])
def test_an_owner_is_a_name(owner, query):
    """Said when the sink is made."""
    with pytest.raises(ConfigurationError, match=r"owner is .*; allowed are 1 to 100 letters"):
        KafkaSink(**query.sink | {"owner": owner})
