"""The recovery table: every marker, every history, with its one decision."""

import itertools

import pytest

from twophase.commit.marker import Marker, Unreadable
from twophase.commit.recovery import Batch, Decision, LastTransaction, decide
from twophase.errors import (
    CheckpointBehind,
    MarkerMissing,
    MarkerUnreadable,
    OffsetsChanged,
    OwnedByAnother,
)

MARKERS = {
    "same": Marker("query-a", 7, "hash-7", 10, 100, 0, 42),
    "other offsets": Marker("query-a", 7, "hash-x", 10, 100, 0, 42),
    "below": Marker("query-a", 6, "hash-6", 10, 100, 0, 42),
    "far below": Marker("query-a", 0, "hash-0", 10, 100, 0, 42),
    "above": Marker("query-a", 8, "hash-8", 10, 100, 0, 42),
    "another owner": Marker("query-b", 7, "hash-7", 10, 100, 0, 42),
    "unreadable": Unreadable("it is not JSON"),
}
EXPECTED = {
    "same": Decision.SKIP,
    "other offsets": OffsetsChanged,
    "below": Decision.RUN,
    "far below": Decision.RUN,
    "above": CheckpointBehind,
    "another owner": OwnedByAnother,
    "unreadable": MarkerUnreadable,
}


def outcome(*args):
    """The decision, or the class of the refusal."""
    found = decide(*args)
    return found if isinstance(found, Decision) else type(found)


@pytest.mark.parametrize("first_try", [True, False])
@pytest.mark.parametrize("last", list(LastTransaction))
@pytest.mark.parametrize("name", MARKERS)
def test_a_marker_decides_alone(name, last, first_try):
    """With a marker neither the run nor the last transaction changes the decision."""
    batch = Batch("query-a", 7, "hash-7", first_try)
    assert outcome(batch, MARKERS[name], last) == EXPECTED[name]


@pytest.mark.parametrize(
    ("number", "first_try", "last"),
    list(itertools.product([0, 7], [True, False], LastTransaction)),
)
def test_without_a_marker_only_certainty_runs(number, first_try, last):
    """No marker: run where nothing can have been committed, refuse where it may have been."""
    certain = (
        first_try
        or last in {LastTransaction.OPEN, LastTransaction.ABORTED}
        or (last is LastTransaction.NEVER_WAS and number == 0)
    )
    batch = Batch("query-a", number, "hash", first_try)
    assert outcome(batch, None, last) == (Decision.RUN if certain else MarkerMissing)
