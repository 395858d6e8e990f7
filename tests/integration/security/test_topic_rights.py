"""A marker's topic of its own, and a dead-letter topic: what each of them needs, and no more."""

import secrets
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic
from support.rights import names, rights_of
from support.sinks import Run, batches
from support.task_drivers import StageDriver, Tasks, expected

from twophase.attempt import run_attempt
from twophase.commit.attempts import prefix_of
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.errors import AccessDenied, TwoPhaseError
from twophase.kafka.store import KafkaStore
from twophase.kafka.task_sink import KafkaTaskSink

both_versions = pytest.mark.parametrize("secured", ["4.3.1", "3.9.2"], indirect=True)


class Stage:
    """What a driver of task scope needs of its stage."""

    def __init__(self, name, folder):
        self.prefix, self.folder = prefix_of(name), folder


@pytest.mark.long
@both_versions
def test_a_marker_topic_in_batch_scope(super_user, etl_wire):
    """Each missing right is named, by a driver that goes on and by a new one; nothing is lost."""
    topic, marker = super_user.make_topic(), super_user.make_topic()
    name = SinkName(f"sink-{uuid4().hex[:8]}")
    rights = rights_of("batch scope", topic=topic, marker=marker, sink=name.sink_id)
    super_user.grant("etl", *rights)

    def start():
        run = Run(etl_wire, name, topic, "query-a")
        run.store = KafkaStore(etl_wire, name, marker)
        return run

    running = start()
    running.write(0)
    for number, right in enumerate(rights, start=1):
        super_user.revoke("etl", right)
        for run in (running, start()):
            with pytest.raises(AccessDenied) as caught:
                run.write(number)
            assert names(right, caught.value), f"{right}: {caught.value}"
        super_user.grant("etl", right)
        running = start()
        running.write(number)
    assert super_user.values(topic) == batches(*range(len(rights) + 1))
    assert super_user.values(marker) == []


@pytest.mark.long
@both_versions
def test_a_marker_topic_in_task_scope(super_user, etl_options, tmp_path):
    """The same: the marker's topic is never written to, and the others are not read."""
    topic, marker = super_user.make_topic(), super_user.make_topic()
    name = SinkName(f"task-{uuid4().hex[:8]}")
    rights = rights_of("task scope", topic=topic, marker=marker, sink=name.sink_id)
    super_user.grant("etl", *rights)

    def driver():
        return StageDriver(Stage(name, tmp_path), KafkaTaskSink(etl_options, topic, marker), {})

    driver().write(0, 2)
    for number, right in enumerate(rights, start=1):
        super_user.revoke("etl", right)
        with pytest.raises(TwoPhaseError) as caught:
            driver().write(number, 2)
        assert names(right, caught.value), f"{right}: {caught.value}"
        super_user.grant("etl", right)
        driver().write(number, 2, first_try=False)
    found = sorted(int(value) for value in super_user.values(topic))
    assert found == expected(*((number, 2) for number in range(len(rights) + 1)))
    assert super_user.values(marker) == []


class WithLetters(Tasks):
    """Tasks of two rows, of which the second names a partition that is not there."""

    def rows(self, number):
        return [b"%d" % number, b"%d" % (number + 50)], [None, 99]

    def run(self, turn, _anew):
        found = []
        for task in range(self.count):
            values, partitions = self.rows(100 * self.number + task)
            rows = pa.RecordBatch.from_pydict(
                {
                    "value": pa.array(values, pa.binary()),
                    "partition": pa.array(partitions, pa.int32()),
                }
            )
            found.append(run_attempt(self.sink, turn.attempt(task, 10 * task), [rows]))
        return found


class OneLarge(WithLetters):
    """A task of one row that is larger than the sink may send, and no codec makes smaller."""

    LARGE = secrets.token_bytes(1_500_000)

    def rows(self, _number):
        return [self.LARGE], [None]


@pytest.mark.long
@both_versions
def test_dead_letters_need_write_and_no_more(super_user, etl_options, tmp_path):
    """Without it the batch fails and names it; after the grant row and letter are there, once."""
    topic, dead = super_user.make_topic(), super_user.make_topic()
    name = SinkName(f"task-{uuid4().hex[:8]}")
    (right,) = rights_of("dead letters", letters=dead)
    super_user.grant("etl", right, *rights_of("task scope", topic=topic, sink=name.sink_id))

    def write(number, *, first_try=True):
        sink = KafkaTaskSink(etl_options, topic, topic, dead_letter_topic=dead)
        driver = StageDriver(Stage(name, tmp_path), sink, {})
        batch = Batch("query", number, f"h{number}", first_try=first_try)
        driver.scope.write(driver.run_id, batch, WithLetters(sink, 2, number))

    write(0)
    super_user.revoke("etl", right)
    with pytest.raises(TwoPhaseError) as caught:
        write(1)
    assert names(right, caught.value), caught.value
    super_user.grant("etl", right)
    write(1, first_try=False)
    assert sorted(int(value) for value in super_user.values(topic)) == [0, 1, 100, 101]
    assert sorted(int(value) for value in super_user.values(dead)) == [50, 51, 150, 151]


@pytest.mark.long
def test_a_letter_is_whole_where_its_topic_s_settings_may_be_read(
    super_user, etl_options, tmp_path
):
    """Without DESCRIBE_CONFIGS 1 MB is taken for the limit, and the letter is cut, said so."""
    topic, name = super_user.make_topic(), SinkName(f"task-{uuid4().hex[:8]}")
    dead = f"dead-{uuid4().hex[:8]}"
    new = NewTopic(dead, 1, config={"max.message.bytes": "3000000"})
    super_user.admin.create_topics([new])[dead].result(timeout=30)
    more, _ = rights_of("dead letters, not needed", letters=dead, topic=topic)
    super_user.grant("etl", *rights_of("dead letters", letters=dead))
    super_user.grant("etl", *rights_of("task scope", topic=topic, sink=name.sink_id))
    for number in range(2):
        sink = KafkaTaskSink(etl_options, topic, topic, dead_letter_topic=dead)
        driver = StageDriver(Stage(name, tmp_path), sink, {})
        batch = Batch("query", number, f"h{number}", first_try=True)
        driver.scope.write(driver.run_id, batch, OneLarge(sink, 1, number))
        super_user.grant("etl", more)
    cut, whole = super_user.values(dead)
    assert 900_000 < len(cut) < 1_048_588
    assert OneLarge.LARGE.startswith(cut)
    assert whole == OneLarge.LARGE
