"""The checker finds each kind of anomaly, alone and mixed, and nothing where nothing is."""

import pytest

from twophase.errors import ProtocolViolation
from twophase.verify.checker import check
from twophase.verify.rows import Input
from twophase.verify.seen import collect
from twophase.verify.verdict import Kind, table

from .planting import PARTITIONS, Row, Topic, counts, looks

ONE_EACH = {
    "lost": (lambda topic: topic.lose(33), {"lost": 1, "torn": 1}, "row 33 (customer-00003, "),
    "duplicate": (lambda topic: topic.double(33, after=4), {"duplicate": 1}, "row 33 (customer"),
    "reordered": (lambda topic: topic.delay(33), {"reordered": 1}, "row 33 (customer-00003, "),
    "strayed": (lambda topic: topic.stray(32), {"reordered": 1}, "row 32 (customer-00002, "),
    "corrupt": (lambda topic: topic.corrupt(33), {"corrupt": 1, "lost": 1, "torn": 1}, "0:"),
    "strange": (lambda topic: topic.add_strange(), {"strange": 1}, "b'hello'"),
}


def test_a_clean_history_is_clean():
    """Nothing is found where nothing is planted, and everything was looked for."""
    topic = Topic()
    verdict = topic.check()
    assert verdict.ok
    assert counts(verdict) == {}
    assert verdict.not_checked == ()
    assert (verdict.rows_in, verdict.rows_out) == (120, 120)
    assert [finding.kind for finding in verdict.findings] == list(Kind)


@pytest.mark.parametrize("name", ONE_EACH)
def test_each_anomaly_alone_is_found(name):
    """One planted, one found, none of another kind, and the example names it."""
    plant, expected, example = ONE_EACH[name]
    topic = Topic()
    plant(topic)
    verdict = topic.check()
    assert not verdict.ok
    assert counts(verdict) == expected
    kind = "reordered" if name == "strayed" else name
    assert any(example in text for text in verdict.finding(Kind(kind)).examples)


def test_all_anomalies_together_are_told_apart():
    """Every kind at once, each counted by itself."""
    topic = Topic()
    clean = topic.rows()
    for number in (0, 1, 60):
        topic.lose(number)
    topic.double(30)
    topic.double(31, after=3)
    topic.delay(44)
    topic.stray(75)
    topic.corrupt(100)
    topic.add_strange()
    topic.add_strange(None)
    verdict = topic.check(
        running=topic.running(rows=[*topic.rows(), Row(2, 900, *topic.made(0))]),
        left_open=("sink (Ongoing)",),
    )
    assert len(clean) == 120
    assert counts(verdict) == {
        "lost": 4,
        "duplicate": 2,
        "torn": 3,
        "reordered": 2,
        "vanished": 1,
        "corrupt": 1,
        "strange": 2,
        "left-open": 1,
    }


def test_a_replay_of_rows_doubles_them_but_does_not_reorder():
    """0 1 2 3 2 3 4: two duplicates; the first sights are in order."""
    topic = Topic(rows=5, keys=1)
    topic.log[0][4:4] = [topic.made(2), topic.made(3)]
    assert counts(topic.check(batches=None)) == {"duplicate": 2}


def test_a_row_seen_at_home_and_elsewhere_is_a_duplicate_only():
    """Whichever partition is read first."""
    for number in range(30, 30 + PARTITIONS):
        topic = Topic()
        topic.log[(topic.home(number) + 1) % PARTITIONS].insert(0, topic.made(number))
        assert counts(topic.check()) == {"duplicate": 1}


def test_a_row_that_only_the_running_reader_saw_has_vanished():
    """What was visible and is not any more was shown before it was decided."""
    topic = Topic()
    along = topic.running()
    topic.lose(119)
    verdict = topic.check(running=along)
    assert counts(verdict) == {"lost": 1, "torn": 1, "vanished": 1}
    assert (
        "row 119 (customer-00009, sequence 11) at 0:" in verdict.finding(Kind.VANISHED).examples[0]
    )


def test_another_row_at_the_same_place_is_not_the_same_row():
    """A topic that was made anew has the same offsets; the rows tell."""
    topic = Topic()
    along = topic.running()
    first, second = topic.log[0][0], topic.log[0][1]
    topic.log[0][:2] = [second, first]
    assert counts(topic.check(running=along)) == {"vanished": 2, "overtaken": 2}


def test_a_row_that_appears_behind_the_running_reader_is_overtaken():
    """The final reader finds it; the running one had gone past. What it has not reached is fine."""
    topic = Topic()
    rows = topic.rows()
    missed = [row for row in rows if row.key == topic.input.key(5)][3]
    unread = [row for row in rows if row.partition == 0][-1]
    along = topic.running(rows=[row for row in rows if row not in (missed, unread)])
    verdict = topic.check(running=along)
    assert counts(verdict) == {"overtaken": 1}
    assert f"{missed.partition}:{missed.offset}" in verdict.finding(Kind.OVERTAKEN).examples[0]


def test_a_batch_shown_in_part_at_two_settled_looks_is_torn():
    """All rows arrive in the end, but readers could see half a batch for a while."""
    topic = Topic()
    steps = list(topic.ends())
    half = {**steps[1], 0: steps[2][0]}
    shown = looks([steps[0], steps[1], half, half, *steps[2:]])
    verdict = topic.check(running=topic.running(shown))
    assert counts(verdict) == {"torn": 1}
    (example,) = verdict.finding(Kind.TORN).examples
    assert example == "batch 2: only a part of it was visible for 0.05 s"


def test_a_sink_that_promises_no_batch_at_once_is_held_to_the_end_alone():
    """In task scope a batch may be shown task by task; in the end all of it has to be there."""
    topic = Topic()
    steps = list(topic.ends())
    half = {**steps[1], 0: steps[2][0]}
    shown = looks([steps[0], steps[1], half, half, *steps[2:]])
    assert topic.check(running=topic.running(shown), at_once=False).ok
    topic.lose(33)
    verdict = topic.check(running=topic.running(shown), at_once=False)
    assert counts(verdict) == {"lost": 1, "torn": 1}
    assert verdict.not_checked == ()


def test_batches_that_appear_whole_are_not_torn():
    """One look after each batch."""
    topic = Topic()
    assert topic.check(running=topic.running(looks(topic.ends()))).ok


def test_one_look_alone_or_one_while_a_transaction_ends_proves_nothing():
    """While the broker reveals a transaction's partitions, one after the other, nothing is torn."""
    topic = Topic()
    steps = list(topic.ends())
    half = {**steps[1], 0: steps[2][0]}
    once = looks([steps[0], steps[1], half, *steps[2:]])
    assert topic.check(running=topic.running(once)).ok
    order = [steps[0], steps[1], half, half, half, *steps[2:]]
    ending = looks(order, settled=[True, True, True, False, False, True, True, True, True])
    assert topic.check(running=topic.running(ending)).ok
    settled = looks(order)
    assert counts(topic.check(running=topic.running(settled))) == {"torn": 1}


def test_a_batch_of_which_nothing_came_is_lost_but_not_torn():
    """None of its rows is visible: whole in its way."""
    topic = Topic()
    for number in range(20, 40):
        topic.lose(number)
    assert counts(topic.check()) == {"lost": 20}


def test_what_was_not_looked_for_is_not_called_clean():
    """Missing evidence shows as such."""
    verdict = Topic().check(running=None, batches=None, left_open=None)
    assert verdict.not_checked == (Kind.TORN, Kind.VANISHED, Kind.OVERTAKEN, Kind.LEFT_OPEN)
    assert verdict.longest_stall_s is None
    assert table([verdict]).count("not checked") == 5


def test_a_reader_that_repeats_itself_is_refused():
    """Its fault would else be taken for the sink's."""
    topic = Topic()
    rows = topic.rows()
    with pytest.raises(ProtocolViolation, match="offset 0 of partition 0 after 0"):
        collect(topic.input, [rows[0], rows[0]])


def test_a_topic_without_rows_has_lost_all():
    """Nothing seen is not nothing wrong."""
    of = Input("planted", 7, 2)
    verdict = check("sink", of, collect(of, []), running=None, batches=None, left_open=())
    assert counts(verdict) == {"lost": 7}
    assert len(verdict.finding(Kind.LOST).examples) == 5


def test_the_table_stands_side_by_side():
    """One column for each sink, the examples below."""
    clean, torn = Topic(), Topic()
    torn.lose(3)
    lines = table([clean.check(), torn.check()]).splitlines()
    assert lines[3].split() == ["rows", "lost", "0", "1"]
    assert lines[13].split() == ["verdict", "ok", "NOT", "OK"]
    assert lines[14] == "sink: rows lost: row 3 (customer-00003, sequence 0)"
