"""`twophase check` tells each right that a sink lacks, whatever the sink is, and harms no job."""

import json
from uuid import uuid4

import pytest
from support.rights import rights_of
from support.rows import blocks, named
from support.secured import Right
from support.writing import write

from twophase.cli.main import run as command_line
from twophase.kafka.transactions import Transactions
from twophase.kafka.wire import Wire

both_versions = pytest.mark.parametrize("secured", ["4.3.1", "3.9.2"], indirect=True)


class Case:
    """One sink: the options of `check` for it, and the rights that docs/security.md lists."""

    def __init__(self, super_user, kind):
        self.sink, self.topic = f"sink-{uuid4().hex[:8]}", super_user.make_topic()
        self.options, marker, more = [], self.topic, ()
        plain = next((each for each in ("at-least-once", "none") if each in kind), None)
        scope = "batch job" if "run" in kind else "task scope" if "task" in kind else "batch scope"
        if "task" in kind:
            self.options += ["--scope", "task"]
        if "run" in kind:
            self.options += ["--run", "monday"]
        if "marker" in kind:
            marker = super_user.make_topic()
            self.options += ["--marker-topic", marker]
        if "letters" in kind:
            dead = super_user.make_topic()
            self.options += ["--dead-letter-topic", dead]
            more += rights_of("dead letters", letters=dead)
        if "source" in kind:
            source, group = super_user.make_topic(), f"group-{uuid4().hex[:8]}"
            self.options += ["--source-group", group, "--source-topic", source]
            more += rights_of("source", source=source, group=group)
        if plain is not None:
            self.options += ["--guarantee", plain]
            scope = "at-least-once"
        self.rights = rights_of(scope, topic=self.topic, marker=marker, sink=self.sink) + more


@pytest.fixture
def check(secured, tmp_path, capfd):
    """Run `check` as etl; return its exit code and its findings, by point."""
    config = tmp_path / "etl.properties"
    lines = secured.client_options("etl").items()
    config.write_text("".join(f"{k}={v.replace(chr(92), chr(92) * 2)}\n" for k, v in lines))

    def run(case):
        what = ["check", "--sink-id", case.sink, "--topic", case.topic, *case.options]
        capfd.readouterr()
        code = command_line([*what, "--command-config", str(config), "--output", "json"])
        found = json.loads(capfd.readouterr().out)["findings"]
        return code, {row["point"]: row for row in found}

    return run


def of_rights(found):
    return {point: row for point, row in found.items() if point.startswith("rights on ")}


def grant_of(right: Right):
    """Return how a finding says what to grant."""
    if right.name.endswith("*"):
        return f"grant {right.operation} on {right.kind}s that begin with {right.name[:-1]!r}"
    return f"grant {right.operation} on {right.kind} {right.name!r}"


@pytest.mark.long
@both_versions
@pytest.mark.parametrize(
    "kind",
    [
        *("batch", "task", "run", "run by task", "batch, marker, letters, source"),
        *("task, marker", "at-least-once, letters", "at-least-once, run", "none"),
    ],
)
def test_each_right_that_is_missing_is_told(super_user, check, kind):
    """With exactly those of the page all is ok; without one there is one error, which names it."""
    case = Case(super_user, kind)
    super_user.grant("etl", *case.rights)
    found = of_rights(check(case)[1])
    assert {row["level"] for row in found.values()} == {"ok"}, found
    for right in case.rights:
        super_user.revoke("etl", right)
        code, found = check(case)
        wrong = [row for row in of_rights(found).values() if row["level"] != "ok"]
        # A prefix may be that of several names.
        prefix = f"rights on {right.kind} {right.name.removesuffix('*')}"
        assert wrong, right
        assert all(row["point"].startswith(prefix) for row in wrong), f"{right}: {wrong}"
        assert all(row["do"] == grant_of(right) for row in wrong), f"{right}: {wrong}"
        assert code == 2
        super_user.grant("etl", right)
    super_user.revoke("etl", *case.rights)


@pytest.mark.parametrize("kind", ["at-least-once, letters", "none"])
def test_a_sink_without_transactions_is_asked_no_more_than_it_needs(super_user, check, kind):
    """With WRITE on its topics and nothing else: no group, no id, no settings, no marker."""
    case = Case(super_user, kind)
    super_user.grant("etl", *case.rights)
    topics = [right.name for right in case.rights]
    _, found = check(case)
    assert set(of_rights(found)) == {f"rights on topic {topic}" for topic in topics}
    assert {row["said"] for row in of_rights(found).values()} == {"DESCRIBE, WRITE"}
    asked = {"brokers", "version", "topic", *(f"open transactions on {each}" for each in topics)}
    asked |= {
        f"{what} of {each}" for what in ("replication", "max.message.bytes") for each in topics
    }
    asked |= {"dead-letter topic"} if "letters" in kind else set()
    assert set(found) - set(of_rights(found)) - {"java", "spark", "connector"} == asked
    assert "error" not in {row["level"] for row in found.values()}, found
    (right, *_) = case.rights
    super_user.revoke("etl", right)
    super_user.grant("etl", describe := Right("DESCRIBE", "topic", right.name))
    code, found = check(case)
    why = found[f"rights on topic {right.name}"]["why"]
    given_up = why.startswith("all of its rows are given up, and the query goes on")
    assert (code, given_up, "is refused" in why) == (2, kind == "none", kind != "none")
    super_user.revoke("etl", describe, *case.rights[1:])


def test_what_holds_readers_back_and_may_not_be_seen(super_user, check):
    """Brokers do not list what this user may not DESCRIBE; that readers stand still is told."""
    case = Case(super_user, "batch")
    super_user.grant("etl", *case.rights)
    point = f"open transactions on {case.topic}"
    with Wire(super_user.options) as wire:
        transactions = Transactions(wire)
        identity = transactions.own(f"other-{uuid4().hex[:8]}")
        write(wire, identity, blocks(case.topic, named("open", 2)))
        _, found = check(case)
        assert found[point]["level"] == "warning"
        assert found[point]["said"] == "none that this user may see, and one is there"
        assert found[point]["why"] == "readers in read_committed are up to 2 records behind"
        transactions.commit(identity)
    assert super_user.values(case.topic) == named("open", 2)
    _, found = check(case)
    assert found[point]["level"] == "ok"
    super_user.revoke("etl", *case.rights)


def test_without_a_source_topic_its_right_is_not_known(super_user, check):
    """A group alone does not say which topics its offsets are of."""
    case = Case(super_user, "batch")
    case.options = ["--source-group", "progress"]
    _, found = check(case)
    assert found["rights on group progress"]["do"] == "grant READ on group 'progress'"
    assert found["rights on the source's topics"]["level"] == "not known"
