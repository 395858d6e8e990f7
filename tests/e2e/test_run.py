"""`twophase run` in this process's Spark: rows once, mistakes in SQL, the end between batches."""

import threading

import pytest
from support.pipelines import fill, kafka_to_kafka, run_here, with_dead_letters
from support.readers import read, values

from twophase.errors import ConfigurationError
from twophase.kafka.letters import PREFIX
from twophase.pipeline.events import BatchDone, Started, Stopping
from twophase.pipeline.frames import make_views
from twophase.pipeline.load import load_pipeline
from twophase.pipeline.mistakes import PipelineWrong
from twophase.pipeline.runner import ASKED, DRAINED
from twophase.pipeline.stopping import Stop
from twophase.spark.kafka_sink import KafkaSink
from twophase.spark.pipeline_query import start_query


def test_kafka_over_sql_to_kafka(spark, kafka, make_topic, tmp_path, monkeypatch):
    """Each row once; asked for the end in mid-batch, that batch is finished and no other begins."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka, 2)
    fill(servers, source, range(50))
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=10)
    stop, write = Stop(), KafkaSink.__call__
    is_under_way, is_stopping = threading.Event(), threading.Event()

    def second_waits(sink, frame, batch):
        if batch == 1:
            is_under_way.set()
            assert is_stopping.wait(60)
        write(sink, frame, batch)

    def in_mid_batch(event):
        if isinstance(event, BatchDone) and not stop.asked:
            assert is_under_way.wait(60)
            stop.ask()
        if isinstance(event, Stopping):
            is_stopping.set()

    with monkeypatch.context() as patched:
        patched.setattr(KafkaSink, "__call__", second_waits)
        ended, told = run_here(path, spark, stop, in_mid_batch, available_now=False)
    assert (ended.why, ended.rows, ended.batch) == (ASKED, 20, 1)
    assert (tmp_path / "checkpoint" / "commits" / str(ended.batch)).exists()
    assert list(ended.offsets.values()) == [{source: {"0": ended.rows}}]
    assert isinstance(told[0], Started)
    assert [event.batch for event in told if isinstance(event, Stopping)] == [1]
    assert len(values(servers, target)) == ended.rows

    ended, told = run_here(path, spark)
    assert (ended.why, ended.batch) == (DRAINED, 4)
    assert sorted(map(int, values(servers, target))) == [2 * number for number in range(50)]


def test_dead_letters(spark, kafka, make_topic, tmp_path):
    """Good rows in the topic, bad ones in the dead-letter topic with the reason, in one batch."""
    servers, source = kafka.bootstrap_servers, make_topic(kafka)
    target, dead = make_topic(kafka, 2), make_topic(kafka)
    fill(servers, source, range(20))
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=10)
    ended, told = run_here(with_dead_letters(path, target, dead), spark)
    assert (ended.why, ended.batch, ended.rows) == (DRAINED, 1, 19)
    records = [event.record for event in told if isinstance(event, BatchDone)]
    assert [(each.rows, each.rejected_rows, each.outcome) for each in records] == [
        (10, 0, "committed"),
        (9, 1, "committed"),
    ]
    assert sorted(map(int, values(servers, target))) == [2 * n for n in range(20) if n != 13]
    (letter,) = read(servers, dead)
    assert (letter.key, letter.value) == (b"13", b"26")
    said = {name.removeprefix(PREFIX): value.decode() for name, value in letter.headers}
    assert said == {
        "sink": records[0].sink_id,
        "reason": "partition-out-of-range",
        "message": "partition is 7; the topic has partitions 0 to 1",
        "topic": target,
        "partition": "7",
        "batch": "1",
    }


@pytest.mark.parametrize(
    ("before", "after", "at", "said"),
    [
        ("FROM numbers", "FORM numbers", "FORM", "Syntax error at or near 'FORM'"),
        ("2 * number", "2 * nummer", "nummer", "did you mean"),
        ("FROM numbers", "FROM nummers", "nummers", "the views before are source, numbers"),
        ("FROM source", "FORM source", "FORM", "Syntax error"),
        ("AS value", "AS worth", "kafka:\n      sink_id", "the column value is missing"),
        ("FROM numbers", "FROM numbers; DROP VIEW source", "; DROP", "Syntax error"),
        ("SELECT key, CAST(2", "DROP VIEW source --", "DROP", "Syntax error"),
    ],
)
def test_mistakes_in_sql(spark, tmp_path, before, after, at, said):
    """Spark says what is wrong, with the file's line and column, and nothing is carried out."""
    path = kafka_to_kafka(tmp_path, "127.0.0.1:1", "in", "out")
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(PipelineWrong) as raised:
        make_views(load_pipeline(path), spark)
    found = [(each.place.line, each.place.column, each.said) for each in raised.value.mistakes]
    ahead = path.read_text().partition(at)[0]
    place = (ahead.count("\n") + 1, len(ahead.rpartition("\n")[2]) + 1)
    assert [(each[0], each[1]) for each in found] == [place], found
    assert said.lower() in found[0][2].lower()
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize("path", ["nowhere://${env:CANARY}/in", "s3://${env:CANARY}/in"])
def test_a_source_that_java_refuses(spark, tmp_path, monkeypatch, path):
    """What PySpark does not translate is one sentence too, without a stack or a secret."""
    monkeypatch.setenv("CANARY", "hunter22")
    file = tmp_path / "p.yaml"
    file.write_text(
        f"source:\n  files: {{format: text, path: '{path}'}}\n"
        "sinks:\n  - kafka:\n      sink_id: a\n      topic: b\n"
        "      options: {kafka.bootstrap.servers: '127.0.0.1:1'}\ncheckpoint: state\n"
    )
    with pytest.raises(PipelineWrong) as raised:
        make_views(load_pipeline(file), spark)
    (found,) = raised.value.mistakes
    assert (found.place.line, found.place.column) == (2, 3)
    assert "No FileSystem for scheme" in found.said
    assert "\n" not in found.said
    assert "hunter22" not in found.said


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("  - sql: SELECT 'a' AS value\n", 3),
        ("  - sql: SELECT 'a' AS value\n  - sql: SELECT * FROM step1\n", 4),
    ],
)
def test_a_query_that_is_no_stream(spark, tmp_path, sql, line):
    """A mistake of the last step: started, it would fail and a scheduler start it for ever."""
    file = tmp_path / "p.yaml"
    file.write_text(
        f"source: {{rate: {{}}}}\nsteps:\n{sql}sinks:\n  - kafka:\n      sink_id: a\n"
        "      topic: b\n      options: {kafka.bootstrap.servers: '127.0.0.1:1'}\n"
        "checkpoint: state\n"
    )
    with pytest.raises(PipelineWrong) as raised:
        make_views(load_pipeline(file), spark)
    (found,) = raised.value.mistakes
    assert (found.place.line, found.said.partition(";")[0]) == (
        line,
        "what comes out is no stream: it reads nothing of the view source",
    )


def test_a_frame_that_is_no_stream_is_refused_before_it_starts(spark, tmp_path):
    """As a mistake of whoever wrote it, which no second try can mend."""
    with pytest.raises(ConfigurationError, match="Spark refuses the query"):
        start_query(
            spark.range(1),
            lambda _frame, _batch: None,
            name="a",
            checkpoint=str(tmp_path),
            mode="append",
            trigger={},
        )


def test_a_sink_that_calls_exit(spark, tmp_path):
    """The run fails and says so; Spark would wait for the answer for ever."""
    (tmp_path / "exiting_sink.py").write_text(
        "import sys\ndef make():\n    return lambda frame, batch: sys.exit(7)\n"
    )
    file = tmp_path / "p.yaml"
    file.write_text(
        "source: {rate: {}}\nsinks: [python: {sink_id: a, name: 'exiting_sink:make'}]\n"
        "checkpoint: state\nrestarts: 0\n"
    )
    with pytest.raises(RuntimeError, match="a sink raised SystemExit: 7"):
        run_here(file, spark, available_now=False)
