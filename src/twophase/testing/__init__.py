"""A contract for sinks of one's own: `class TestMine(SinkContract)` with one fixture."""

from twophase.testing.contract import SinkContract, Stage
from twophase.testing.folder import LocalFolder

__all__ = ["LocalFolder", "SinkContract", "Stage"]
