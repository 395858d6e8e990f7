"""What brokers leave out without a word, because a user may not DESCRIBE it, is never "not there".

On a real cluster with users, by the real commands.
"""

from uuid import uuid4

import pytest
from support.secured import Right
from support.sinks import Run

from twophase.commit.naming import SinkName
from twophase.kafka.sink_state import look
from twophase.kafka.wire import Wire


@pytest.fixture
def admin_wire(super_user):
    with Wire(super_user.options) as wire:
        yield wire


@pytest.fixture
def written(super_user, admin_wire):
    """Make a sink with one batch in a topic; return its name and the topic."""

    def make():
        topic, name = super_user.make_topic(), SinkName(f"sink-{uuid4().hex[:8]}")
        Run(admin_wire, name, topic, "query-a").write(0)
        return name, topic

    return make


SHOW = ("sinks", "show", "{sink}")
RESET = ("sinks", "reset", "{sink}", "--yes")
ADOPT = ("sinks", "adopt", "{sink}", "--owner", "query-b", "--not-committed", "1", "--yes")


def test_a_marker_in_a_hidden_topic_is_not_said_to_be_missing(
    super_user, admin_wire, command, written
):
    """Asked for the sink alone, commands refuse, and go on once the topic may be described."""
    name, topic = written()
    rights = [
        Right("DELETE", "group", name.marker_group),
        Right("WRITE", "transactional id", name.transactional_id),
    ]
    super_user.grant("etl", *rights)
    before = look(admin_wire, name)
    for asked in (SHOW, RESET, ADOPT):
        code, out, err = command(asked, sink=name.sink_id)
        assert (code, out) == (1, "")
        assert "none of its offsets lies in a topic that this user may DESCRIBE" in err
        assert "say with --topic" in err
        code, out, err = command((*asked, "--topic", topic), sink=name.sink_id)
        assert (code, out) == (1, "")
        assert f"grant DESCRIBE on topic '{topic}'" in err
    assert look(admin_wire, name) == before
    seeing = Right("DESCRIBE", "topic", topic)
    super_user.grant("etl", seeing)
    code, out, _ = command(SHOW, sink=name.sink_id)
    assert (code, f"query-a owns {topic}" in out) == (0, True)
    code, _, err = command(RESET, sink=name.sink_id)
    assert (code, "the marker cannot be brought back" in err) == (0, True)
    code, out, _ = command(SHOW, sink=name.sink_id)
    assert "no marker" in out  # The group is gone, so nothing can be hidden in it.
    super_user.revoke("etl", *rights, seeing)


def test_reset_says_what_it_deletes_also_under_another_topic(super_user, command, written):
    """The whole group goes, wherever in it the marker lies."""
    (name, _), other = written(), super_user.make_topic()
    rights = [
        Right("DELETE", "group", name.marker_group),
        Right("WRITE", "transactional id", name.transactional_id),
        Right("DESCRIBE", "topic", other),
    ]
    super_user.grant("etl", *rights)
    code, _, err = command((*RESET, "--topic", other), sink=name.sink_id)
    assert code == 0
    assert f"now:   no marker in {other}" in err
    assert "the marker cannot be brought back" in err
    super_user.revoke("etl", *rights)


@pytest.mark.parametrize("kind", ["group", "transactional id", "topic"])
def test_a_sink_that_may_not_be_seen_does_not_end_the_list(super_user, command, written, kind):
    """It is said of that sink, with the right that is missing; the others are shown."""
    seen, hidden = written(), written()
    rights = [
        Right("DESCRIBE", each, named)
        for name, topic in (seen, hidden)
        for each, named in (
            ("topic", topic),
            ("group", name.marker_group),
            ("transactional id", name.transactional_id),
        )
        if (name, each) != (hidden[0], kind)
    ]
    super_user.grant("etl", *rights)
    code, out, _ = command(("sinks", "list"))
    assert code == 0
    assert f"{seen[0].sink_id}\n  query-a owns {seen[1]}" in out
    (about,) = [
        each
        for each in out.split("\n")
        if each.startswith("  not known: ") and _of(out, each, hidden)
    ]
    if kind == "topic":
        assert "in a topic that this user may DESCRIBE" in about
    else:
        assert f"grant DESCRIBE on {kind} '{hidden[0].transactional_id}'" in about
    super_user.revoke("etl", *rights)


def _of(out, line, hidden):
    """Whether a line of the list stands under this sink."""
    return f"{hidden[0].sink_id}\n{line}" in out
