"""One sink in task scope over a log on disk, a store that does as it is told, and a clock."""

import pytest
from support.scopes import Moving, Recording, scope_over

from twophase.testing import LocalFolder


@pytest.fixture
def folder(tmp_path):
    """The log's folder."""
    return LocalFolder(tmp_path / "log")


@pytest.fixture
def sink():
    """A store."""
    return Recording()


@pytest.fixture
def clock():
    """A clock."""
    return Moving()


@pytest.fixture
def scope_of(folder, sink, clock):
    """Make a driver of the sink."""
    return lambda **more: scope_over(folder, sink, clock, **more)
