"""`twophase run` in this process's Spark: rows once, mistakes in SQL, the end between batches."""

import pytest
from support.pipelines import fill, kafka_to_kafka, run_here, with_dead_letters
from support.readers import read, values

from twophase.kafka.letters import PREFIX
from twophase.pipeline.events import BatchDone, Started, Stopping
from twophase.pipeline.frames import make_views
from twophase.pipeline.load import load_pipeline
from twophase.pipeline.mistakes import PipelineWrong
from twophase.pipeline.runner import ASKED, DRAINED
from twophase.pipeline.stopping import Stop


def test_kafka_over_sql_to_kafka(spark, kafka, make_topic, tmp_path):
    """Each row once; asked for the end in mid-batch, that batch is finished and no other begins."""
    servers, source, target = kafka.bootstrap_servers, make_topic(kafka), make_topic(kafka, 2)
    fill(servers, source, range(50))
    path = kafka_to_kafka(tmp_path, servers, source, target, rows_per_batch=10)
    stop = Stop()

    def at_first_batch(event):
        if isinstance(event, BatchDone) and not stop.asked:
            stop.ask()

    ended, told = run_here(path, spark, stop, at_first_batch, available_now=False)
    assert (ended.why, ended.rows) == (ASKED, 10 * (ended.batch + 1))
    assert 0 <= ended.batch < 4
    assert (tmp_path / "checkpoint" / "commits" / str(ended.batch)).exists()
    assert list(ended.offsets.values()) == [{source: {"0": ended.rows}}]
    assert isinstance(told[0], Started)
    assert any(isinstance(event, Stopping) for event in told)
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
