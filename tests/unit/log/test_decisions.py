"""The decision log over a folder: what is there once, what is trimmed, what is told."""

import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from twophase.commit.recovery import Batch
from twophase.errors import (
    CheckpointBehind,
    LogCorrupt,
    LogVersionUnsupported,
    OffsetsChanged,
    OwnedByAnother,
)
from twophase.log.decision import Decision, Prepared
from twophase.log.decisions import DecisionLog, Recorded
from twophase.log.seal import seal
from twophase.log.verdict import Run, Skip, judge
from twophase.testing import LocalFolder

PREPARED = (Prepared(0, "n0", 3, {"file": "a"}), Prepared(2, "n2", 4, {"file": "b", "at": [1]}))


@pytest.fixture
def folder(tmp_path):
    """An empty folder."""
    return LocalFolder(tmp_path / "log")


@pytest.fixture
def log(folder):
    """A log without a decision."""
    return DecisionLog(folder)


def decision(batch=7, slot=0, owner="query", offsets="h7", prepared=PREPARED):
    """A decision, to commit unless told otherwise."""
    return Decision(batch, slot, owner, offsets, 1, 99, prepared)


def test_a_decision_comes_back(log):
    """With its committables as they were, void or not."""
    made = [decision(6, prepared=None), decision(6, 1, prepared=()), decision(7)]
    assert all(log.decide(each) for each in made)
    assert log.look().decisions == tuple(made)
    assert [each.commits for each in log.look().decisions] == [False, True, True]
    assert log.look().decisions[2].rows == 7


def test_rows_that_were_put_aside_are_told():
    """By committables that count them; others say nothing."""
    prepared = (*PREPARED, Prepared(3, "n3", 5, {"rejected_rows": 2}))
    found = decision(prepared=prepared)
    assert (found.rows, found.rejected_rows) == (12, 2)
    assert decision(prepared=None).rejected_rows == 0


def test_a_slot_is_decided_once(log):
    """Of many at the same moment one decides, and the file is that one's."""
    with ThreadPoolExecutor(16) as pool:
        tried = list(pool.map(lambda n: log.decide(decision(owner=str(n))), range(64)))
    (winner,) = (n for n, won in enumerate(tried) if won)
    assert [each.owner for each in log.look().decisions] == [str(winner)]


def test_epochs_only_grow(log):
    """Nobody gets the number of another, also at the same moment."""
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: log.take_epoch({}, 5), range(40)))
    assert len(set(taken)) == 40
    assert log.take_epoch({}, 5) > max(taken)


def test_epochs_do_not_come_again_with_a_new_log(tmp_path):
    """Otherwise a committed name would come again, and its new rows would be taken for written."""
    assert DecisionLog(LocalFolder(tmp_path / "a")).take_epoch({}, 1_700_000_000) == 1_700_000_000
    log = DecisionLog(LocalFolder(tmp_path / "b"))
    assert [log.take_epoch({}, now_s) for now_s in (1_700_000_050, 1_700_000_050, 7)] == [
        1_700_000_050,
        1_700_000_051,
        1_700_000_052,
    ]


def test_files_are_for_their_owner_only(log, folder, tmp_path):
    """A committable may name what others need not know."""
    log.decide(decision())
    (path,) = (tmp_path / "log").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert folder.names() == [path.name]


def test_done_batches_are_trimmed(log, folder):
    """The last two stay."""
    for batch in range(10):
        log.decide(decision(batch))
        log.record_done(decision(batch))
        log.trim(batch)
    assert sorted(folder.names()) == [
        "batch-000000000008-0000",
        "batch-000000000009-0000",
        "done-000000000008-0000",
        "done-000000000009-0000",
    ]
    assert log.look().undone is None


def test_only_the_latest_decision_can_be_undone(log):
    """An older one was made too late, by a driver that had been replaced."""
    log.decide(decision(5))
    log.decide(decision(6))
    assert log.look().undone == decision(6)
    assert (log.is_latest(5), log.is_latest(6)) == (False, True)
    log.record_done(decision(6))
    assert log.look().undone is None


def test_a_later_batch_that_is_void_makes_older_decisions_done(log):
    """Nobody comes to a batch before the last one is done."""
    log.decide(decision(5))
    log.decide(decision(9, prepared=None))
    assert log.look().undone is None


def test_a_decision_made_anew_is_not_done(log, folder):
    """Where a person has deleted the files of a decision, but not the note that it was done."""
    log.decide(decision())
    log.record_done(decision())
    folder.delete("batch-000000000007-0000")
    log.decide(decision(prepared=None))
    log.decide(decision(slot=1))
    assert log.look().undone == decision(slot=1)


def test_a_decision_whose_own_answer_was_lost(log):
    """A file system that asks again by itself finds its own file: that is no rival's."""
    assert log.decide(decision())
    assert log.decide(decision())
    assert not log.decide(decision(owner="another"))


def test_slots_do_not_end(log):
    """A query that crashed ten thousand times still starts."""
    log.decide(decision(slot=9_999, prepared=None))
    log.decide(decision(slot=10_000, prepared=None))
    batch = Batch("query", 7, "h7", first_try=False)
    assert judge(batch, log.look(), log.root) == Run(10_001)


def test_a_look_is_of_one_moment(log, folder):
    """What another driver trims meanwhile is not left out: an old decision would look latest."""
    log.decide(decision(5))
    log.decide(decision(6))
    log.record_done(decision(6))
    read, vanished = folder.read, []

    def trimmed_once(name):
        if name == "batch-000000000006-0000" and not vanished:
            vanished.append(name)
            return None
        return read(name)

    folder.read = trimmed_once
    assert [each.batch for each in log.look().decisions] == [5, 6]
    assert vanished


@pytest.mark.parametrize("name", ["batch-000000000007-0000", "done-000000000007-0000"])
def test_a_damaged_file_stops_the_look(log, folder, name):
    """It is not taken for one that is not there."""
    folder.create(name, seal({"batch": 7})[:-3])
    with pytest.raises(LogCorrupt, match=name):
        log.look()


def test_a_decision_under_another_name(log, folder):
    """A person has copied it: another slot, or batch, would be decided that never was."""
    log.decide(decision())
    data = folder.read("batch-000000000007-0000")
    for name in ("batch-000000000007-0001", "batch-000000000008-0000"):
        folder.create(name, data)
        with pytest.raises(LogCorrupt, match=f"{name} holds .* belongs in batch-000000000007-0000"):
            log.look()
        folder.delete(name)
    assert log.look().decisions == (decision(),)


def test_a_sealed_file_that_is_no_decision(log, folder):
    """Whole, and still nothing that can be believed."""
    folder.create("batch-000000000007-0000", seal({"batch": 7, "prepared": None}))
    with pytest.raises(LogCorrupt, match="holds no decision"):
        log.look()


def test_what_is_lost_is_recorded_for_ever(log, folder):
    """With all that a person needs, and no trim takes it away."""
    place = log.record_lost(decision(), PREPARED[1], "expired")
    log.trim(1000)
    (name,) = folder.names()
    assert place.endswith(name)
    assert all(word in folder.read(name) for word in (b'"expired"', b'"n2"', b'"rows":4', b'"b"'))


def test_a_loss_is_recorded_once(log, folder):
    """A start that comes to it again finds it, also where the store gives another reason now."""
    place = log.record_lost(decision(), PREPARED[1], "expired")
    (before,) = map(folder.read, folder.names())
    assert log.record_lost(decision(), PREPARED[1], "not known") == place
    assert [folder.read(name) for name in folder.names()] == [before]


def test_a_batch_that_is_lost_again_is_recorded_again(log, folder):
    """A person deleted its files, as an error advised, and it was written by a later driver."""
    first = log.record_lost(decision(), PREPARED[1], "expired")
    (old,) = folder.names()
    before = folder.read(old)
    anew = replace(PREPARED[1], name="another", rows=9)
    second = log.record_lost(replace(decision(), epoch=2), anew, "expired too")
    assert second != first
    assert folder.read(old) == before
    (new,) = set(folder.names()) - {old}
    assert second.endswith(new)
    assert b'"name":"another","rows":9' in folder.read(new)


@pytest.mark.parametrize(
    "other", [replace(PREPARED[1], name="x"), replace(PREPARED[1], committable={"file": "x"})]
)
def test_a_loss_is_not_said_to_be_recorded_by_another(log, other):
    """Nobody writes such a file; what is in it is not taken for what is lost now."""
    log.record_lost(decision(), other, "expired")
    with pytest.raises(LogCorrupt, match="lost-000000000007-00002-0000000001 records another loss"):
        log.record_lost(decision(), PREPARED[1], "expired")


def test_what_is_recorded_of_a_decision(log):
    """Its own losses with their causes, and what was committed; of no other slot, driver, batch."""
    log.record_lost(decision(), PREPARED[1], "expired", [0])
    assert log.recorded(decision()) == Recorded({2: "expired"}, frozenset([0]))
    assert log.recorded(decision(prepared=None)) == Recorded()
    assert log.recorded(decision(batch=8)) == Recorded()
    assert log.recorded(replace(decision(), epoch=2)) == Recorded()
    with pytest.raises(LogCorrupt, match="records another loss"):
        log.recorded(decision(slot=1))


def test_an_epoch_with_a_loss_does_not_come_again(log, folder):
    """Also where somebody has deleted all else and the clock went back: it would excuse another."""
    log.record_lost(replace(decision(), epoch=1_700_000_000), PREPARED[1], "expired")
    assert log.take_epoch({}, 5) == 1_700_000_001
    assert log.take_epoch({}, 5) == 1_700_000_002
    assert "epoch-1700000001" not in folder.names()


def damaged(data):
    """The bytes of a file, cut short everywhere and with any one bit flipped."""
    yield from (data[:length] for length in range(len(data)))
    for at in range(len(data)):
        for bit in range(8):
            yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


@pytest.mark.parametrize("kind", ["epoch-", "lost-"])
def test_a_damaged_note_stops_a_start(log, folder, kind):
    """Before the driver takes a number, though nobody but people reads what is in it."""
    taken = log.take_epoch({"owner": "query", "at_ms": 7}, 5)
    log.record_lost(decision(), PREPARED[1], "expired")
    (name,) = (each for each in folder.names() if each.startswith(kind))
    whole = folder.read(name)
    for data in damaged(whole):
        folder.delete(name)
        assert folder.create(name, data)
        with pytest.raises((LogCorrupt, LogVersionUnsupported), match=name):
            log.take_epoch({}, 9)
    folder.delete(name)
    assert folder.create(name, whole)
    assert log.take_epoch({}, 5) == taken + 1


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        ([], Run(0)),
        ([decision(6)], Run(0)),
        ([decision(prepared=None)], Run(1)),
        ([decision(prepared=None), decision(slot=1, prepared=None)], Run(2)),
        ([decision()], Skip(decision())),
        ([decision(prepared=None), decision(slot=1)], Skip(decision(slot=1))),
        ([decision(8, prepared=None)], Run(0)),
        ([decision(8)], CheckpointBehind),
        ([decision(offsets="other")], OffsetsChanged),
        ([decision(offsets="other", prepared=None)], Run(1)),
        ([decision(6, owner="another")], OwnedByAnother),
    ],
)
def test_the_verdict(log, made, verdict):
    """Each row of the table."""
    for each in made:
        log.decide(each)
    found = judge(Batch("query", 7, "h7", first_try=False), log.look(), log.root)
    assert found == verdict or type(found) is verdict
