"""The recovery table: every marker, every history, with its one decision."""

import itertools
import pickle
import shlex

import pytest

from twophase.commit.marker import Marker, Unreadable
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch, Decision, LastTransaction, decide
from twophase.commit.refusals import named
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


def test_a_refusal_by_a_marker_holds_for_every_later_one():
    """So one that is older than what is true may refuse: a sink keeps its owner and goes on."""
    markers = [
        Marker(owner, number, f"hash-{version}", 1, 1, 0, 1)
        for owner, number, version in itertools.product("ab", range(4), range(2))
    ]
    for number, older, newer in itertools.product(range(4), markers, markers):
        goes_on = newer.owner == older.owner and newer.batch > older.batch
        if goes_on or newer == older:
            batch = Batch("a", number, "hash-0", first_try=False)
            before, now = (decide(batch, each, LastTransaction.OPEN) for each in (older, newer))
            assert isinstance(before, Decision) or not isinstance(now, Decision)


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


THERE = "--committed 7 --offsets hash-7"
NOT_THERE = "--not-committed 7"
# What each refusal ends with: the commands that resolve it, with the values that are known.
COMMANDS = {
    "other offsets": [
        f"adopt SINK_ID --owner query-a {THERE}",
        f"adopt SINK_ID --owner query-a {NOT_THERE}",
    ],
    "above": ["show SINK_ID", f"adopt SINK_ID --owner query-a {NOT_THERE}"],
    "another owner": [f"adopt SINK_ID --owner query-a {NOT_THERE}"],
    "unreadable": [
        f"adopt SINK_ID --owner query-a {THERE}",
        f"adopt SINK_ID --owner query-a {NOT_THERE}",
    ],
    "nothing": [
        f"adopt SINK_ID --topic TOPIC --owner query-a {THERE}",
        f"adopt SINK_ID --topic TOPIC --owner query-a {NOT_THERE}",
    ],
}


def refusal(name, owner="query-a"):
    """The refusal of batch 7 of this query."""
    batch = Batch(owner, 7, "hash-7", first_try=False)
    return decide(batch, MARKERS.get(name), LastTransaction.UNKNOWN)


def commands_in(error):
    lines = str(error).splitlines()
    found = [line.removeprefix("  twophase sinks ") for line in lines if line.startswith("  ")]
    assert lines[-1].endswith(found[-1])
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_refusal_ends_with_its_commands(name):
    """They hold owner, batch and hash, so that nobody has to look them up; also after pickling."""
    assert commands_in(refusal(name)) == COMMANDS[name]
    assert commands_in(pickle.loads(pickle.dumps(refusal(name)))) == COMMANDS[name]


def test_every_refusal_has_commands():
    """Whatever the table refuses is in the list above."""
    refused = {name for name, found in EXPECTED.items() if not isinstance(found, Decision)}
    assert refused | {"nothing"} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_refusal_says_what_is_at_risk(name):
    """Rows that are doubled in one direction, and where it is so, lost in the other."""
    said = str(refusal(name))
    assert "double" in said
    assert name == "another owner" or "los" in said


@pytest.mark.parametrize("name", COMMANDS)
def test_a_refusal_names_the_sink(name):
    """Whoever knows the sink's name and topic puts them in; nothing else of the text changes."""
    error = refusal(name)
    filled = named(error, SinkName("orders"), "rows")
    assert type(filled) is type(error)
    expected = [
        line.replace("SINK_ID", "orders").replace("TOPIC", "rows") for line in COMMANDS[name]
    ]
    assert commands_in(filled) == expected


def test_a_run_of_a_batch_job_is_named_by_its_run():
    """It has neither an owner to name nor offsets that could change."""
    error = decide(Batch("run", 0, "", first_try=False), None, LastTransaction.UNKNOWN)
    assert commands_in(error) == [
        "adopt SINK_ID --run RUN_ID --topic TOPIC --committed 0",
        "adopt SINK_ID --run RUN_ID --topic TOPIC --not-committed 0",
    ]
    filled = commands_in(named(error, SinkName("orders", "nightly"), "rows"))
    assert filled[0] == "adopt orders --run nightly --topic rows --committed 0"


def test_an_owner_that_a_shell_would_split():
    """Values are quoted, so that a copied line means what it says."""
    error = decide(Batch("a b; c", 7, "h", first_try=False), None, LastTransaction.UNKNOWN)
    assert "a b; c" in shlex.split(commands_in(error)[0])
