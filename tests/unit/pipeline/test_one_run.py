"""One run of a pipeline at a time on a machine."""

import os

import pytest

from twophase.errors import Fenced
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
