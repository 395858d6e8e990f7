"""How the points of `twophase check` are judged, for clusters that are dear to set up."""

import pytest
from support.rights import PAGE

from twophase.commit.naming import SinkName
from twophase.errors import ConfigurationError
from twophase.kafka.check_brokers import (
    KEYS,
    plain_release_finding,
    release_finding,
    setting_findings,
    version_finding,
)
from twophase.kafka.check_setup import Setup
from twophase.kafka.check_sink import owner_finding
from twophase.kafka.check_topics import (
    Replication,
    block_finding,
    internal_findings,
    leader_finding,
    replication_finding,
    there_finding,
)
from twophase.kafka.findings import Level
from twophase.kafka.needs import TABLES
from twophase.kafka.options import KafkaOptions
from twophase.kafka.rights import GROUP, TOPIC, TRANSACTIONAL_ID
from twophase.kafka.sink_state import IdState, MarkerState, SinkState

GOOD = dict(zip(KEYS, ("true", "900000", "10080", "604800000", "3", "3"), strict=True))


@pytest.mark.parametrize(
    ("level", "verdict", "said"),
    [
        (None, Level.UNKNOWN, "does not tell its release"),
        (11, Level.ERROR, "Kafka 3.5 or older"),
        (14, Level.WARNING, "Kafka 3.6; which patch"),
        (19, Level.OK, "Kafka 3.7"),
        (21, Level.OK, "Kafka 3.9"),
        (30, Level.OK, "Kafka 4.3"),
        (99, Level.OK, "Kafka 4.4 or newer"),
    ],
)
def test_releases(level, verdict, said):
    """What is too old is an error, what may be is a warning, what does not tell is not ok."""
    found = release_finding(1, level)
    assert (found.level, said in found.said) == (verdict, True)


def test_releases_for_rows_without_a_transaction():
    """Partition verification is nothing to them; from Kafka 3.0 on WRITE is all they need."""
    assert plain_release_finding(1, 11).level is plain_release_finding(1, 30).level is Level.OK
    found = plain_release_finding(1, None)
    assert (found.level, "IDEMPOTENT_WRITE on the cluster" in found.do) == (Level.UNKNOWN, True)


@pytest.mark.parametrize(
    ("factor", "in_sync", "leaderless", "min_isr", "verdict", "said"),
    [
        (3, 3, 0, 2, Level.OK, "factor 3, min.insync.replicas=2"),
        (3, 2, 0, 2, Level.WARNING, "factor 3, min.insync.replicas=2, 2 in sync"),
        (3, 1, 0, 2, Level.ERROR, "1 of 3 replicas are in sync"),
        (3, 3, 1, 2, Level.ERROR, "no leader"),
        (1, 1, 0, 2, Level.ERROR, "1 of 1 replicas"),
        (1, 1, 0, 1, Level.WARNING, "factor 1"),
        (1, 1, 0, None, Level.WARNING, "factor 1"),
        (3, 3, 0, 1, Level.WARNING, "min.insync.replicas=1"),
        (2, 2, 0, 2, Level.WARNING, "factor 2, min.insync.replicas=2"),
        (3, 3, 0, None, Level.UNKNOWN, "may not be read"),
    ],
)
def test_replication(factor, in_sync, leaderless, min_isr, verdict, said):
    """A topic that takes no write now is an error, one that may lose or stop is a warning."""
    found = replication_finding("t", Replication(factor, in_sync, leaderless), min_isr)
    assert (found.level, said in found.said) == (verdict, True)


def test_replication_where_the_leader_alone_counts():
    """By the guarantee none a lost disk is no surprise; without a leader nothing is written."""
    assert leader_finding("t", Replication(1, 1, 0)).level is Level.OK
    assert leader_finding("t", Replication(3, 1, 0)).level is Level.OK
    found = leader_finding("t", Replication(3, 3, 2))
    assert (found.level, found.said) == (Level.ERROR, "2 partitions have no leader")


@pytest.mark.parametrize(
    ("guarantee", "fate"),
    [
        ("exactly-once", "fails its batch"),
        ("at-least-once", "fails its batch"),
        ("none", "is given up, and its rows are counted"),
    ],
)
def test_what_becomes_of_a_block_that_is_too_large(guarantee, fate):
    """As the guarantee has it."""
    options = KafkaOptions.parse({"kafka.bootstrap.servers": "a:1"})
    setup = Setup.of(SinkName("s"), "t", guarantee=guarantee)
    found = block_finding("t", 5_000, options, fate=setup.fate)
    assert (found.level, fate in found.why) == (Level.ERROR, True)


@pytest.mark.parametrize(
    ("brokers", "verdict", "said"),
    [
        ({1: GOOD, 2: GOOD, 3: GOOD}, Level.OK, "replication.factor=3"),
        ({1: GOOD}, Level.ERROR, "factor=3 with 1 brokers"),
        ({1: GOOD | dict.fromkeys(KEYS[-2:], "1")}, Level.WARNING, "factor 1"),
        ({1: None}, Level.UNKNOWN, "not there yet"),
    ],
)
def test_internal_topics_of_a_new_cluster(brokers, verdict, said):
    """Kafka makes them at the first transaction: whether it can is told before."""
    found = list(internal_findings(None, {}, brokers))
    assert [each.level for each in found] == [verdict, verdict]
    assert all(said in each.said for each in found)


def judged(brokers, *, timeout_ms=60_000, first=True, may_grow=True):
    found = setting_findings(brokers, timeout_ms, first=first, may_grow=may_grow)
    return {each.point: each for each in found if each.level is not Level.OK}


@pytest.mark.parametrize(
    ("changed", "how", "point", "verdict"),
    [
        ({KEYS[0]: "false"}, {}, KEYS[0], Level.ERROR),
        ({KEYS[0]: None}, {}, KEYS[0], Level.ERROR),
        ({KEYS[1]: "30000"}, {}, KEYS[1], Level.ERROR),
        ({}, {"timeout_ms": 900_000}, KEYS[1], Level.WARNING),
        ({KEYS[2]: "60"}, {}, KEYS[2], Level.WARNING),
        ({KEYS[3]: "3600000"}, {}, KEYS[3], Level.WARNING),
    ],
)
def test_settings_of_brokers(changed, how, point, verdict):
    """The worst broker counts, and each finding says what to do."""
    (found,) = judged({1: GOOD, 2: GOOD | changed}, **how).values()
    assert (found.point, found.level) == (point, verdict)
    assert found.why
    assert found.do


def test_settings_that_may_not_be_read():
    """They are not known, and those of the other brokers are judged."""
    assert judged({1: GOOD}) == {}
    assert judged({1: GOOD}, timeout_ms=900_000, may_grow=False) == {}
    assert judged({1: GOOD | {KEYS[0]: "false"}}, first=False) == {}
    found = judged({1: None, 2: GOOD | {KEYS[2]: "60"}})
    assert found["broker settings"].level is Level.UNKNOWN
    assert "node 1 does not" in found["broker settings"].said
    assert list(found) == ["broker settings", KEYS[2]]
    assert list(judged({1: None})) == ["broker settings"]


def test_both_protocols_are_fit():
    """Version 1 is safe with partition verification, and the gain of version 2 is named."""
    assert version_finding(2).level is version_finding(0).level is Level.OK
    assert "kafka-features.sh" in version_finding(0).said


@pytest.mark.parametrize(
    ("exists", "marker", "verdict", "said"),
    [
        (False, MarkerState("none"), Level.OK, "new"),
        (True, MarkerState("none"), Level.WARNING, "has no marker"),
        (True, MarkerState("unreadable", "t", why="it is not JSON"), Level.ERROR, "not JSON"),
        (True, MarkerState("readable", "t", owner="q", batch=-1), Level.OK, "nothing yet"),
        (True, MarkerState("readable", "t", owner="q", batch=7), Level.WARNING, "q owns it"),
    ],
)
def test_who_owns_the_sink(exists, marker, verdict, said):
    """A new id is ok; one that is taken is said with its owner."""
    found = owner_finding(state(exists, marker))
    assert (found.level, said in found.said) == (verdict, True)


def state(exists, marker, run_id=None):
    return SinkState("s", run_id, "twophase.s", exists, marker, IdState("none"), ())


@pytest.mark.parametrize(
    ("run_id", "owner", "batch", "verdict", "said"),
    [
        (None, "q (task scope)", -1, Level.WARNING, "q (task scope) owns it, started then"),
        ("r", "run", -1, Level.OK, "has written nothing yet"),
        ("r", "run", 0, Level.WARNING, "it is done: its rows were written then"),
        ("r", "run (task scope)", -1, Level.WARNING, "started in task scope then"),
    ],
)
def test_who_owns_a_sink_by_task_or_a_run(run_id, owner, batch, verdict, said):
    """Where the marker does not say what was written, nothing is said of it."""
    marker = MarkerState("readable", "t", owner=owner, batch=batch, time="then")
    found = owner_finding(state(exists=True, marker=marker, run_id=run_id))
    assert (found.level, said in found.said) == (verdict, True)


SETUPS = {
    "batch": {},
    "task": {"by_task": True},
    "run": {"name": SinkName("s", "r")},
    "run by task": {"name": SinkName("s", "r"), "by_task": True},
    "all": {
        "marker_topic": "m",
        "dead_letter_topic": "d",
        "source_group": "g",
        "source_topics": ("a", "b"),
    },
    "at-least-once": {"guarantee": "at-least-once", "dead_letter_topic": "d"},
    "none": {"guarantee": "none"},
    "run at-least-once": {"guarantee": "at-least-once", "name": SinkName("s", "r")},
}


@pytest.mark.parametrize("given", SETUPS.values(), ids=SETUPS)
def test_each_need_is_of_something_that_is_used(given):
    """And nothing is used without a right on it: what is asked is all that there is."""
    setup = Setup.of(**{"name": SinkName("s"), "topic": "t"} | given)
    used = [(kind, name) for kind in (TOPIC, GROUP, TRANSACTIONAL_ID) for name in setup.used(kind)]
    needs = setup.needs()
    assert all(any(need.covers(*each) for each in used) for need in needs)
    assert all(any(need.covers(*each) for need in needs) for each in used)
    if "guarantee" in given:
        assert {(need.operation, need.kind) for need in needs} == {("WRITE", TOPIC)}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dead_letter_topic": "t"}, "which is the sink's own topic"),
        ({"dead_letter_topic": "a b"}, "dead_letter_topic is 'a b'; allowed are 1 to 249"),
        ({"source_topics": ("a",)}, "no source_group is given"),
        ({"source_group": "twophase.x"}, "does not begin with twophase."),
        ({"source_group": "g", "by_task": True}, "leave source_group out"),
        ({"source_group": "g", "name": SinkName("s", "r")}, "'g' in a batch job"),
        ({"source_group": "g", "guarantee": "none"}, "source_group is given with the guarantee"),
        ({"by_task": True, "guarantee": "at-least-once"}, 'scope="task" is given with'),
        ({"marker_topic": "m", "guarantee": "none"}, "no transaction and no marker; leave it out"),
        ({"guarantee": "twice"}, "exactly-once, at-least-once, none"),
    ],
)
def test_what_the_sink_refuses_is_refused(given, said):
    """Before any broker is asked."""
    with pytest.raises(ConfigurationError, match=said):
        Setup.of(**{"name": SinkName("s"), "topic": "t"} | given)


@pytest.mark.parametrize("topic", ["a b", "x" * 250, "..", "__consumer_offsets"])
def test_what_is_no_topic_s_name(topic):
    """What a name may be is said, instead of an advice to look at the brokers."""
    found = there_finding("topic", Setup.of(SinkName("s"), topic), topic, None)
    assert found.level is Level.ERROR
    assert "1 to 249 letters" in found.do


def test_the_page_shows_what_is_asked():
    """The tables of docs/security.md, row by row."""
    for section, needs in TABLES.items():
        text = PAGE.read_text().split(f"<!-- rights: {section} -->")[1].split("<!-- end")[0]
        rows = [f"| {n.operation} | {n.kind} | `{n.name}` | {n.why} |" for n in needs]
        assert text.strip().splitlines()[2:] == rows
