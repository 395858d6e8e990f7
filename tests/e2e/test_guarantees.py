"""At-least-once and none in real Spark: what is lost, doubled, counted, raised."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from support.readers import read, values

from twophase.errors import ConfigurationError, ProtocolViolation, RowRejected
from twophase.guarantee import Guarantee
from twophase.kafka.admin import list_transactions
from twophase.kafka.options import KafkaOptions
from twophase.kafka.outlets import Delivery
from twophase.kafka.wire import Wire
from twophase.spark.unrouted import write_unrouted
from twophase.verify.proxy import ApiKey, KafkaProxy

RUN = Path(__file__).parent / "unrouted_run.py"
SURE, NONE = Guarantee.AT_LEAST_ONCE, Guarantee.NONE
PLAIN = ("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")


@pytest.fixture
def connect(kafka):
    """Open wires of a driver to the shared broker, with more options where a test needs them."""
    with ExitStack() as stack:

        def open_wire(**options):
            given = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
            given["kafka.bootstrap.servers"] = kafka.bootstrap_servers
            return stack.enter_context(Wire(KafkaOptions.parse(given)))

        yield open_wire


@pytest.fixture
def wire(connect):
    return connect()


@pytest.fixture
def topic(kafka, make_topic):
    return make_topic(kafka, partitions=3)


def numbers(spark, count, tasks=2):
    return spark.range(count, numPartitions=tasks).selectExpr(*PLAIN)


def transactional_ids(wire):
    return {found.transactional_id for found in list_transactions(wire)}


def texts(count):
    return sorted(str(number).encode() for number in range(count))


@pytest.mark.parametrize("guarantee", [SURE, NONE])
def test_every_row_is_written_where_nothing_fails(guarantee, spark, kafka, wire, topic):
    """Visible at once to readers of both levels; the count is theirs; no transactional id."""
    before = transactional_ids(wire)
    written = write_unrouted(numbers(spark, 5_000, tasks=3), wire, topic, guarantee)
    rows = read(kafka.bootstrap_servers, topic)
    assert sorted(row.value for row in rows) == texts(5_000)
    assert values(kafka.bootstrap_servers, topic, committed=False) == [row.value for row in rows]
    per_partition = Counter(row.partition for row in rows)
    assert [(part.partition, part.rows) for part in written.partitions] == sorted(
        per_partition.items()
    )
    assert (written.rows, written.failed_rows, written.error) == (5_000, 0, None)
    assert written.bytes > 5_000
    assert transactional_ids(wire) == before


def test_batch_after_batch_in_the_same_workers(spark, kafka, wire, topic):
    """A worker keeps its producer id; the rows of later batches are no repeats to the broker."""
    for number in range(4):
        frame = numbers(spark, 10).selectExpr("key", f"concat('{number}-', value) AS value")
        assert write_unrouted(frame, wire, topic, SURE).rows == 10
    found = values(kafka.bootstrap_servers, topic)
    assert sorted(found) == sorted(
        f"{batch}-{row}".encode() for batch in range(4) for row in range(10)
    )


def test_lost_answers_double_nothing_within_a_task(spark, kafka, topic):
    """The tasks' connections are cut instead of answered; the broker recognises every repeat."""
    with KafkaProxy(kafka.proxied) as proxy:
        given = {"kafka.bootstrap.servers": proxy.bootstrap_servers, "kafka.batch.size": 5_000}
        with Wire(KafkaOptions.parse(given)) as wire:
            caught = proxy.on(ApiKey.PRODUCE, "response").cut(times=3)
            assert write_unrouted(numbers(spark, 5_000), wire, topic, SURE).rows == 5_000
    assert caught.count == 3
    assert sorted(values(kafka.bootstrap_servers, topic)) == texts(5_000)


def test_the_plan_is_executed_once(spark, kafka, wire, make_topic):
    """Also where topics come from a column: no job before the one that writes."""
    first, second = make_topic(kafka), make_topic(kafka, partitions=2)
    executed = spark.sparkContext.accumulator(0)

    def counting(batches):
        for batch in batches:
            executed.add(batch.num_rows)
            yield batch

    frame = spark.range(100, numPartitions=2).selectExpr(
        f"IF(id % 4 = 0, '{first}', '{second}') AS topic", "CAST(id AS STRING) AS value"
    )
    written = write_unrouted(frame.mapInArrow(counting, frame.schema), wire, None, SURE)
    assert (written.rows, executed.value) == (100, 100)
    assert len(values(kafka.bootstrap_servers, first)) == 25
    assert len(values(kafka.bootstrap_servers, second)) == 75


def test_an_empty_batch_is_nothing(spark, wire, topic):
    """No rows, no partitions, no error."""
    assert write_unrouted(numbers(spark, 0), wire, topic, SURE).partitions == ()


@pytest.mark.long
def test_a_killed_task_is_run_again_and_doubles_rows(kafka, make_topic, tmp_path):
    """At least once and not more: no row is lost; what the dead task had written is there twice."""
    topic, memory = make_topic(kafka), tmp_path / "killed"
    arguments = {
        "servers": kafka.bootstrap_servers,
        "topic": topic,
        "guarantee": SURE,
        "rows": 1_000,
        "memory": str(memory),
    }
    done = subprocess.run(
        [sys.executable, str(RUN), json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert memory.exists()
    assert json.loads(done.stdout.splitlines()[-1]) == {"rows": 1_000, "failed_rows": 0}
    found = Counter(values(kafka.bootstrap_servers, topic))
    assert sorted(found) == texts(1_000)
    assert set(found.values()) == {1, 2}
    assert 100 < sum(found.values()) - 1_000 < 900


def mixed(spark, small, large):
    """Rows of two topics: a small one for each number, and a large one for every tenth."""
    return spark.range(100, numPartitions=2).selectExpr(
        f"IF(id % 10 = 0, '{large}', '{small}') AS topic",
        "CAST(id AS STRING) AS key",
        "IF(id % 10 = 0, repeat('x', 3000), CAST(id AS STRING)) AS value",
    )


def test_none_counts_what_the_broker_refuses_and_goes_on(spark, kafka, connect, make_topic, caplog):
    """The rows of one topic are refused, counted and logged; the other's are all there."""
    wire = connect(compression_type="none")
    small, large = make_topic(kafka, partitions=2), make_topic(kafka, max_message_bytes=1_000)
    written = write_unrouted(mixed(spark, small, large), wire, None, NONE)
    assert (written.rows, written.failed_rows) == (90, 10)
    failed = [part for part in written.partitions if part.failed_rows]
    assert failed == [Delivery(large, 0, 0, 0, 10)]
    assert len(values(kafka.bootstrap_servers, small)) == 90
    assert values(kafka.bootstrap_servers, large) == []
    assert "10 of 100 rows were not written (guarantee none)" in caplog.text
    assert "MESSAGE_SIZE_TOO_LARGE" in caplog.text


def test_at_least_once_raises_what_none_counts(spark, kafka, connect, make_topic):
    """The same refusal fails the batch, as our own error with the broker's words."""
    wire = connect(compression_type="none")
    small, large = make_topic(kafka, partitions=2), make_topic(kafka, max_message_bytes=1_000)
    with pytest.raises(RowRejected, match="MESSAGE_SIZE_TOO_LARGE"):
        write_unrouted(mixed(spark, small, large), wire, None, SURE)


def test_none_goes_on_when_a_topic_vanishes(spark, kafka, connect, make_topic):
    """Deleted while the batch runs: its rows are counted after one delivery timeout."""
    wire = connect(delivery_timeout_ms=1_000, request_timeout_ms=500)
    topic = make_topic(kafka)
    servers = kafka.bootstrap_servers

    def deleting(batches):
        admin = AdminClient({"bootstrap.servers": servers})
        admin.delete_topics([topic])[topic].result(30)
        while topic in admin.list_topics(timeout=30).topics:
            time.sleep(0.02)
        yield from batches

    frame = numbers(spark, 100, tasks=1)
    written = write_unrouted(frame.mapInArrow(deleting, frame.schema), wire, topic, NONE)
    assert (written.rows, written.failed_rows) == (0, 100)
    assert "no block was acknowledged for 1000 ms" in written.error


def test_none_goes_on_when_the_brokers_are_gone(spark, private_kafka, make_topic):
    """The broker dies between the driver's question and the tasks: every row is counted.

    Where topics come from a column nobody knows how many partitions they have, and so the rows are
    counted without a place.
    """
    cluster = private_kafka()
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.max.block.ms": 5_000,
        "kafka.request.timeout.ms": 500,
        "kafka.delivery.timeout.ms": 500,
    }
    topic, node = make_topic(cluster), cluster.nodes[0].pid
    frame = numbers(spark, 300)

    def killing(batches):
        with contextlib.suppress(ProcessLookupError):
            os.kill(node, signal.SIGKILL)
        yield from batches

    with Wire(KafkaOptions.parse(options)) as wire:
        fixed = write_unrouted(frame.mapInArrow(killing, frame.schema), wire, topic, NONE)
        column = frame.selectExpr("key", "value", f"'{topic}' AS topic")
        unplaced = write_unrouted(column, wire, None, NONE)
    assert fixed.partitions == (Delivery(topic, 0, 0, 0, 300),)
    assert unplaced.partitions == (Delivery("", -1, 0, 0, 300),)
    for written in (fixed, unplaced):
        assert "TWOPHASE_STORE_UNAVAILABLE" in written.error


@pytest.mark.parametrize("guarantee", [SURE, NONE])
def test_a_mistake_in_the_query_is_raised_under_every_guarantee(guarantee, spark, wire, topic):
    """A row that the encoder refuses, a topic that is not there, an acks that cannot be."""
    frame = numbers(spark, 10)
    with pytest.raises(RowRejected, match="the topic has partitions 0 to 2"):
        write_unrouted(frame.selectExpr("value", "9 AS partition"), wire, topic, guarantee)
    with pytest.raises(ConfigurationError, match="topic 'no-such' does not exist"):
        write_unrouted(frame, wire, "no-such", guarantee)
    with pytest.raises(ConfigurationError, match="topic 'no-such' does not exist"):
        write_unrouted(frame.selectExpr("value", "'no-such' AS topic"), wire, None, guarantee)


def test_exactly_once_takes_another_way(spark, wire, topic):
    """Without routing and a transaction nobody may claim it."""
    with pytest.raises(ProtocolViolation, match="exactly-once needs"):
        write_unrouted(numbers(spark, 1), wire, topic, Guarantee.EXACTLY_ONCE)


def test_less_than_all_replicas_is_refused_before_anything_runs(spark, connect, topic):
    """The driver says so; no task is started."""
    with pytest.raises(ConfigurationError, match=r"kafka\.acks must be all"):
        write_unrouted(numbers(spark, 1), connect(acks=1), topic, SURE)
