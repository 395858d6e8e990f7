"""What a source is told in a file: which rows it reads, how many, and when."""

import json
from datetime import datetime

import pytest
from confluent_kafka import Producer
from support.pipelines import fill, kafka_to_kafka, run_here
from support.readers import values

from twophase.pipeline.events import BatchDone
from twophase.pipeline.runner import DRAINED
from twophase.pipeline.stopping import Stop


def changed(path, before, after):
    """Change one thing in a file, which must be there."""
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    return path


def batches_of(told):
    """How many rows each batch brought."""
    return [event.record.rows for event in told if isinstance(event, BatchDone)]


@pytest.mark.parametrize(
    ("more", "expected"),
    [("", range(10, 20)), ("isolation: read_uncommitted", range(20))],
)
def test_rows_of_an_aborted_transaction(spark, kafka, make_topic, tmp_path, more, expected):
    """Left out, unless the file asks for them: they lie in the topic."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": source})
    producer.init_transactions(30)
    for first, end in ((0, producer.abort_transaction), (10, producer.commit_transaction)):
        producer.begin_transaction()
        for number in range(first, first + 10):
            producer.produce(source, str(number))
        assert producer.flush(30) == 0
        end(30)
    path = kafka_to_kafka(tmp_path, servers, source, target)
    changed(path, f"topic: {source}\n", f"topic: {source}\n    {more}\n")
    assert run_here(path, spark)[0].why == DRAINED
    assert sorted(map(int, values(servers, target))) == [2 * number for number in expected]


def test_where_it_begins(spark, kafka, make_topic, tmp_path):
    """By JSON for each partition; a later start goes on from the checkpoint, whatever it says."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka, 3), make_topic(kafka)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(30):
        producer.produce(source, str(number), partition=number // 10)
    assert producer.flush(30) == 0
    begin = {source: {"0": 7, "1": -2, "2": -1}}
    path = kafka_to_kafka(tmp_path, servers, source, target)
    changed(path, f"{source}\n", f"{source}\n    starting_offsets: '{json.dumps(begin)}'\n")
    assert run_here(path, spark)[0].rows == 13
    producer.produce(source, "30", partition=2)
    assert producer.flush(30) == 0
    assert run_here(path, spark)[0].rows == 1
    expected = [*range(7, 20), 30]
    assert sorted(map(int, values(servers, target))) == [2 * number for number in expected]


def test_topics_by_a_pattern(spark, kafka, make_topic, tmp_path):
    """All that match, and no other."""
    servers, target = kafka.bootstrap_servers, make_topic(kafka)
    first, second, other = (make_topic(kafka) for _ in range(3))
    for at, topic in enumerate((first, second, other)):
        fill(servers, topic, range(10 * at, 10 * at + 10))
    path = kafka_to_kafka(tmp_path, servers, first, target)
    alike = f"topic-({first.removeprefix('topic-')}|{second[6:14]}.*)"
    changed(path, f"topic: {first}\n", f"topic_pattern: {alike}\n")
    (read,) = run_here(path, spark)[0].offsets.values()
    assert set(read) == {first, second}
    assert sorted(map(int, values(servers, target))) == [2 * number for number in range(20)]


def test_so_many_files_a_batch(spark, kafka, make_topic, tmp_path):
    """Five files, two at a time."""
    servers, target = kafka.bootstrap_servers, make_topic(kafka)
    path = kafka_to_kafka(tmp_path, servers, "none", target)
    (tmp_path / "in").mkdir()
    for number in range(5):
        (tmp_path / "in" / f"{number}.txt").write_text(f"{number}\n")
    text = path.read_text()
    begin, end = text.index("source:"), text.index("sinks:")
    files = "source: {files: {format: text, path: in, max_files_per_batch: 2}}\n"
    path.write_text(f"{text[:begin]}{files}{text[end:]}")
    _, told = run_here(path, spark)
    assert batches_of(told) == [2, 2, 1]
    assert sorted(map(int, values(servers, target))) == list(range(5))


def test_a_batch_a_second(spark, kafka, make_topic, tmp_path):
    """Each waits for the next second of the clock, though all the rows are there."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka)
    fill(servers, source, range(100))
    path = kafka_to_kafka(
        tmp_path, servers, source, target, rows_per_batch=10, more="trigger: 1 second\n"
    )
    stop, queries = Stop(), []

    def at_the_fifth(event):
        if isinstance(event, BatchDone) and event.record.batch == 4:
            queries.extend(spark.streams.active)
            stop.ask()

    ended, told = run_here(path, spark, stop, at_the_fifth, available_now=False)
    assert batches_of(told) == [10] * (ended.batch + 1)
    (query,) = queries
    began = {each.batchId: each.timestamp for each in reversed(query.recentProgress)}
    first, last = (datetime.fromisoformat(began[batch]).timestamp() // 1 for batch in (0, 4))
    # Four, less one where Spark chose the second before it noted when the first batch began.
    assert last - first >= 3, began
