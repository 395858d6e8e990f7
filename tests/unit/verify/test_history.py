"""A history is whole as long as its lines are, whoever is killed while writing it."""

import json
import subprocess
import sys
from dataclasses import FrozenInstanceError

import pytest

from twophase.errors import ConfigurationError
from twophase.observe import BatchRecord
from twophase.verify.history import (
    EVENTS,
    BatchDone,
    FaultInjected,
    History,
    HistoryFile,
    ProcessEnded,
    ProcessStarted,
    ReaderStalled,
    ReaderTroubled,
    RowsProduced,
    RowsSeen,
)

ALL = (
    RowsProduced(at_s=1.0, first=0, stop=100),
    ProcessStarted(at_s=2.0, sink="a", name="driver", pid=17),
    RowsSeen(at_s=3.0, sink="a", rows=5, reached={0: 3, 1: 4}),
    FaultInjected(at_s=4.0, kind="kill -9", target="driver"),
    ProcessEnded(at_s=5.0, sink="a", name="driver", pid=17, code=-9),
    BatchDone(at_s=6.0, sink="b", record={"batch": 3, "open_s": 0.5, "warnings": []}),
    ReaderStalled(at_s=7.0, sink="b", partition=1, offset=9, held_s=2.5),
    ReaderTroubled(at_s=8.0, sink="a", error="no answer"),
)

# Writes as fast as it can until it is killed.
WRITER = """
import sys
from pathlib import Path
from twophase.verify.history import HistoryFile, RowsProduced
history = HistoryFile(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(1_000_000):
    history.record(RowsProduced(first=number, stop=number + 1))
"""


def test_every_event_comes_back(tmp_path):
    """Equal, and by time, however they were written."""
    assert {type(event) for event in ALL} == set(EVENTS.values())
    path = tmp_path / "history.jsonl"
    with HistoryFile(path) as history:
        for event in reversed(ALL):
            history.record(event)
    assert History.load(path) == History(ALL)


def test_a_killed_writer_leaves_a_history_that_can_be_read_and_continued(tmp_path):
    """A kill -9 in the middle of writing: what came before is there, and so what comes after."""
    path = tmp_path / "history.jsonl"
    arguments = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"ready\n"
        while path.stat().st_size < 20_000:
            assert writer.poll() is None
        writer.kill()
    with HistoryFile(path) as history:
        history.record(ALL[3])
    loaded = History.load(path)
    numbers = [event.first for event in loaded.all(RowsProduced)]
    assert len(numbers) > 100
    assert numbers == list(range(len(numbers)))
    assert list(loaded.all(FaultInjected)) == [ALL[3]]


def test_an_unfinished_line_costs_only_itself(tmp_path):
    """It is counted, and the next event is not lost with it."""
    path = tmp_path / "history.jsonl"
    with HistoryFile(path) as history:
        history.record(ALL[0])
    with path.open("ab") as file:
        file.write(b'\n{"event": "RowsProd')
    with HistoryFile(path) as history:
        history.record(ALL[1])
    assert History.load(path) == History(ALL[:2], unfinished=1)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1, 2]", r"line 1 holds no event of a history: \[1, 2\]"),
        ('{"event": "Nothing"}', "line 1 holds no event of a history"),
        (
            '{"event": "RowsProduced", "at_s": 1}',
            "RowsProduced with at_s; it must have at_s, first",
        ),
    ],
)
def test_what_is_no_history_is_refused(tmp_path, line, said):
    """By file and line."""
    path = tmp_path / "history.jsonl"
    path.write_text(line)
    with pytest.raises(ConfigurationError, match=said):
        History.load(path)


def test_a_sink_has_its_own_events_and_those_of_all():
    """Two sinks share the input and the faults, not their batches."""
    own = History(ALL).of("b")
    assert own.events == (ALL[0], ALL[3], ALL[5], ALL[6])


def test_a_batch_hook_records_what_the_sink_says(tmp_path):
    """Every field of the record, as it is."""
    record = BatchRecord(
        **dict.fromkeys(BatchRecord.__dataclass_fields__, 1) | {"warnings": ("slow",)}
    )
    path = tmp_path / "history.jsonl"
    with HistoryFile(path) as history:
        history.batch_hook("orders")(record)
    (event,) = History.load(path).events
    assert event.sink == "orders"
    assert event.record == json.loads(json.dumps(event.record))
    assert event.record["warnings"] == ["slow"]
    assert set(event.record) == set(BatchRecord.__dataclass_fields__)


def test_events_cannot_be_changed():
    """What happened, happened."""
    with pytest.raises(FrozenInstanceError):
        ALL[0].first = 1
