"""Readers and checker on a real broker: clean where it is clean, and what is planted is found."""

import numpy as np
import pytest

from twophase.errors import StoreUnavailable
from twophase.verify import reader
from twophase.verify.batches import Batches
from twophase.verify.checker import check
from twophase.verify.fill import Filler
from twophase.verify.history import ReaderStalled, ReaderTroubled, RowsProduced, RowsSeen
from twophase.verify.proxy import ApiKey, KafkaProxy
from twophase.verify.reader import RunningReader, left_open, read_all
from twophase.verify.seen import collect
from twophase.verify.verdict import Kind

from .conftest import BATCH_ROWS, PARTITIONS, ROWS


def judged(stage):
    """Stop the running reader and let the checker judge."""
    running = stage.reader.stop()
    return check(
        "by hand",
        stage.input,
        stage.final(),
        running=running,
        batches=Batches((np.arange(ROWS) // BATCH_ROWS).astype(np.int32)),
        left_open=left_open(stage.wire, stage.transactional_id),
    )


def counts(verdict):
    return {str(finding.kind): finding.count for finding in verdict.findings if finding.count}


def test_committed_and_aborted_transactions_are_clean(stage):
    """Five batches, each after an aborted try; the running reader sees what the final one sees."""
    for number in range(5):
        stage.write(stage.batch(number), commit=False)
        stage.write(stage.batch(number))
    verdict = judged(stage)
    assert counts(verdict) == {}
    assert verdict.ok
    assert verdict.not_checked == ()
    assert verdict.rows_out == ROWS
    *_, last = stage.told().all(RowsSeen)
    assert (last.rows, last.sink) == (ROWS, "by hand")


def test_a_planted_duplicate_a_missing_row_and_a_row_out_of_order_are_found(stage):
    """Each in a batch of its own, committed on the real broker."""
    zero, one, two = list(stage.batch(0)), list(stage.batch(1)), list(stage.batch(2))
    stage.write([*zero, 50])
    one.remove(250)
    stage.write(one)
    two.insert(two.index(417) + 1, two.pop(two.index(400)))
    stage.write(two)
    for number in (3, 4):
        stage.write(stage.batch(number))
    verdict = judged(stage)
    assert counts(verdict) == {"duplicate": 1, "lost": 1, "torn": 1, "reordered": 1}
    assert "row 50 " in verdict.finding(Kind.DUPLICATE).examples[0]
    assert "row 250 " in verdict.finding(Kind.LOST).examples[0]
    assert "row 400 " in verdict.finding(Kind.REORDERED).examples[0]
    assert verdict.finding(Kind.TORN).examples == ("batch 1: 199 of 200 rows in the end",)


def test_a_batch_in_two_transactions_is_torn_while_the_second_is_missing(stage):
    """All rows are there in the end, but readers could see half of it."""
    for number in (0, 1):
        stage.write(stage.batch(number))
    stage.write(range(400, 500))
    stage.wait_for_looks(4)
    stage.write(range(500, 600))
    for number in (3, 4):
        stage.write(stage.batch(number))
    verdict = judged(stage)
    assert counts(verdict) == {"torn": 1}
    assert "batch 2: only a part of it was visible" in verdict.finding(Kind.TORN).examples[0]


def test_an_open_transaction_holds_up_readers_and_is_found(stage):
    """Readers stall behind it for as long as it is open; nothing of it is seen."""
    for number in range(5):
        stage.write(stage.batch(number))
    stage.send(stage.rows_of(range(20)))
    stage.wait_for_looks(8)
    verdict = judged(stage)
    assert counts(verdict) == {"left-open": 1}
    assert verdict.finding(Kind.LEFT_OPEN).examples == (f"{stage.transactional_id} (Ongoing)",)
    assert verdict.longest_stall_s > 0.2


def test_a_stall_ends_with_the_transaction_and_is_in_the_history(stage):
    """From the first sign of the rows until they may be read."""
    stage.send(stage.rows_of(stage.batch(0)))
    stage.wait_for_looks(8)
    stage.end()
    running = stage.reader.stop()
    stalls = list(stage.told().all(ReaderStalled))
    assert {stall.partition for stall in stalls} == set(range(PARTITIONS))
    assert max(stall.held_s for stall in stalls) == pytest.approx(running.longest_stall_s)
    assert running.longest_stall_s > 0.2


def test_rows_that_are_corrupt_or_strange_are_found(stage):
    """Bytes that changed on the way, and rows of somebody else."""
    for number in range(5):
        stage.write(stage.batch(number))
    rows = stage.rows_of([5, 6])
    values = [rows["value"][0].as_py().replace(b"customer", b"costumer"), b"hello"]
    stage.send(rows.set_column(1, "value", [values]))
    stage.end()
    assert counts(judged(stage)) == {"corrupt": 1, "strange": 1}


def test_a_reader_that_shows_aborted_rows_is_found_out(open_stage, monkeypatch):
    """Without read_committed the running reader sees what is gone in the end."""
    monkeypatch.setattr(reader, "ISOLATION", "read_uncommitted")
    stage = open_stage()
    stage.write(stage.batch(0), commit=False)
    for number in range(5):
        stage.write(stage.batch(number))
    verdict = judged(stage)
    assert verdict.count(Kind.VANISHED) == BATCH_ROWS
    assert verdict.count(Kind.DUPLICATE) == 0, "the final reader is not misled"


def test_lost_connections_make_the_reader_neither_skip_nor_repeat(open_stage, kafka):
    """Requests and answers of all its kinds are cut off; it goes on and notes the trouble."""
    with KafkaProxy(kafka.proxied) as proxy:
        stage = open_stage(reads_at=proxy.bootstrap_servers)
        for number in range(5):
            proxy.on(ApiKey.LIST_TRANSACTIONS).cut()
            proxy.on(ApiKey.FETCH, "response").cut()
            proxy.on(ApiKey.LIST_OFFSETS, "response").cut()
            stage.write(stage.batch(number))
            stage.wait_for_looks(1)
        verdict = judged(stage)
    assert counts(verdict) == {}
    assert verdict.rows_out == ROWS
    assert list(stage.told().all(ReaderTroubled))


def test_a_filled_topic_holds_every_row_once_in_order(stage, kafka, make_topic):
    """What goes into a source topic is itself checked, by a reader of this package."""
    source = make_topic(kafka, PARTITIONS)
    filler = Filler(stage.wire, source, stage.input, stage.history.record)
    filler.fill(0, 300)
    filler.fill(300, ROWS)
    seen = collect(stage.input, read_all(stage.wire.options, source))
    verdict = check("source", stage.input, seen, running=None, batches=None, left_open=None)
    assert verdict.ok
    assert verdict.rows_out == ROWS
    assert [(e.first, e.stop) for e in stage.told().all(RowsProduced)] == [(0, 300), (300, ROWS)]


def test_a_topic_that_is_not_there_is_told_by_name(stage):
    """At once, in the thread of whoever starts the reader."""
    lost = RunningReader(
        stage.wire.options,
        "nowhere",
        stage.input,
        sink="by hand",
        record=stage.history.record,
        transactional_id=None,
    )
    with pytest.raises(StoreUnavailable, match="topic 'nowhere' is not there"):
        lost.start()
