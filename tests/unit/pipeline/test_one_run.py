"""One run of a pipeline at a time on a machine."""

import os
import tempfile

import pytest
from support.waiting import wait_until

from twophase.errors import Fenced
from twophase.pipeline import one_run as module
from twophase.pipeline.one_run import one_run


def test_the_second_is_refused_until_the_first_is_over():
    """By checkpoint; the message names the process."""
    with one_run("/here"):
        with one_run("/there"):
            pass
        with pytest.raises(Fenced, match=f"process {os.getpid()}"), one_run("/here"):
            pass
    with one_run("/here"):
        pass


def test_the_lock_does_not_grow_old(monkeypatch, tmp_path):
    """Folders for temporary files are cleaned up by age, and a run may take months."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(module, "_TOUCH_S", 0.01)
    with one_run("/here"):
        (path,) = tmp_path.iterdir()
        os.utime(path, (0, 0))
        wait_until(lambda: path.stat().st_mtime > 0, 10)
        assert path.read_text() == str(os.getpid())
