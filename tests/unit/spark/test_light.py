"""A task over light rows: as they are, or ended by a heavy one."""

import time
from itertools import repeat

import pyarrow as pa
import pytest

from twophase.spark.light import HeavyRows, unflagged

LIGHT, HEAVY = False, True


def batch(*heavy):
    return pa.record_batch({"value": ["v"] * len(heavy), "twophase_heavy": list(heavy)})


def test_without_a_heavy_row_they_come_as_the_frame_has_them():
    found = list(unflagged([batch(LIGHT), batch(LIGHT, LIGHT)]))
    assert [part.to_pydict() for part in found] == [{"value": ["v"]}, {"value": ["v", "v"]}]


def test_what_comes_behind_a_heavy_row_is_read_and_dropped():
    """Expected: nothing is left unread, as Spark would end a worker for that."""
    rows = iter([batch(LIGHT), batch(HEAVY, LIGHT), batch(LIGHT), batch(HEAVY)])
    found = []
    with pytest.raises(HeavyRows):
        found.extend(unflagged(rows))
    assert len(found) == 1
    assert next(rows, None) is None


def test_not_all_of_a_long_task_is_read(monkeypatch):
    """Expected: it ends after about as long as a new worker takes."""
    monkeypatch.setattr("twophase.spark.light._NEW_WORKER_S", 0.1)
    began_s = time.monotonic()
    with pytest.raises(HeavyRows):
        list(unflagged(repeat(batch(HEAVY))))
    assert time.monotonic() - began_s >= 0.1
