"""KafkaSink in task scope on a real Spark: a query, a job, refusals, and drivers killed."""

import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from support.readers import values
from support.streams import Files, forget_last_commit, run

from twophase import KafkaSink
from twophase.errors import ConfigurationError, OwnedByAnother
from twophase.kafka.admin import TransactionState, list_transactions
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wires import shared_wire

QUERY = Path(__file__).parent / "kafka_task_query.py"
BATCHES, ROWS = 2, 6
EXPECTED = [100 * number + each for number in range(BATCHES) for each in range(ROWS)]


@pytest.fixture
def files(spark, tmp_path):
    """A source of two batches."""
    found = Files(spark, tmp_path / "source", "id long")
    for number in range(BATCHES):
        found.add(*({"id": 100 * number + each} for each in range(ROWS)))
    return found


class Place:
    """A topic and a sink id on the broker, and what is found there."""

    def __init__(self, kafka, topic):
        self.servers, self.topic = kafka.bootstrap_servers, topic
        self.sink_id = f"by-task-{uuid4().hex[:8]}"

    def sink(self, **more):
        options = {"kafka.bootstrap.servers": self.servers}
        given = {"sink_id": self.sink_id, "topic": self.topic, "scope": "task"} | more
        return KafkaSink(options=options, **given)

    def check(self, expected):
        """Each row once, and nothing open."""
        assert sorted(map(int, values(self.servers, self.topic))) == expected
        wire = shared_wire(KafkaOptions.parse({"kafka.bootstrap.servers": self.servers}))
        prefix, states = f"twophase.{self.sink_id}", (TransactionState.ONGOING,)
        assert list_transactions(wire, prefix=prefix, states=states) == ()


@pytest.fixture
def place(kafka, make_topic):
    """A new topic."""
    return Place(kafka, make_topic(kafka, 2))


def test_a_query_and_a_job(spark, files, place, tmp_path):
    """Each row once; a batch that Spark asks for again is skipped; another query is refused."""
    records = []
    frame = files.frame().repartition(3).selectExpr("cast(id as string) as value")
    run(frame, place.sink(hooks=[records.append]), tmp_path / "check")
    assert [(each.outcome, each.rows, each.path) for each in records] == [
        ("committed", ROWS, "task")
    ] * BATCHES
    forget_last_commit(tmp_path / "check")
    files.add({"id": 900})
    run(frame, place.sink(hooks=[records.append]), tmp_path / "check")
    assert [each.outcome for each in records[BATCHES:]] == ["skipped", "committed"]
    with pytest.raises(Exception, match=OwnedByAnother.code):
        run(frame, place.sink(), tmp_path / "another")
    job = place.sink(decisions=str(tmp_path / "log"))
    rows = spark.range(1000, 1020, 1, 4).selectExpr("cast(id as string) as value")
    assert job.write(rows, run_id="monday").rows == 20
    assert job.write(rows, run_id="monday").outcome == "skipped"
    place.check([*EXPECTED, 900, *range(1000, 1020)])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scope": "row"}, "scope='row' is not allowed"),
        ({"pool_size": 0}, "pool_size is 0; allowed are whole numbers from 1"),
        ({"scope": "batch", "pool_size": 5}, 'pool_size is given with scope="batch"'),
        ({"scope": "batch", "decisions": "/log"}, 'decisions is given with scope="batch"'),
        ({"scope": "batch", "on_lost": "record"}, 'on_lost is given with scope="batch"'),
        ({"guarantee": "at-least-once"}, "guarantee is 'at-least-once' with scope"),
        ({"source_group": "group"}, "source_group is 'group' with scope"),
        ({"path": "driver"}, "path is 'driver' with scope"),
    ],
)
def test_settings_that_do_not_fit(given, said):
    """One sentence before anything is done."""
    given = {"sink_id": "s", "topic": "t", "scope": "task"} | given
    with pytest.raises(ConfigurationError, match=said):
        KafkaSink(options={"kafka.bootstrap.servers": "nowhere:1"}, **given)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.usefixtures("files")
def test_killed_between_any_two_commits(kafka, make_topic, tmp_path):
    """Kill -9 of a real driver after each number of commits; the next one makes the others."""
    for commits in range(3 * BATCHES):
        place = Place(kafka, make_topic(kafka, 2))
        arguments = {
            "source": str(tmp_path / "source"),
            "servers": place.servers,
            "topic": place.topic,
            "sink_id": place.sink_id,
            "checkpoint": str(tmp_path / f"check-{commits}"),
        }
        for more, code in (({"commits": commits}, -9), ({}, 0)):
            done = subprocess.run(
                [sys.executable, str(QUERY), json.dumps(arguments | more)],
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == code, done.stdout + done.stderr[-3000:]
        place.check(EXPECTED)
