"""Which right is missing, in words."""

import pytest

from twophase.kafka.rights import DENIED, missing


@pytest.mark.parametrize(
    ("request_name", "code", "said"),
    [
        ("Produce", 29, "grant WRITE on topic 'a', 'b'"),
        ("TxnOffsetCommit", 29, "grant READ on topic 'a', 'b'"),
        ("EndTxn", 53, "grant WRITE on transactional id 'a', 'b'"),
        ("Unheard", 30, "grant the right on group 'a', 'b'"),
    ],
)
def test_a_right_is_named_whole(request_name, code, said):
    """Operation, kind of resource and names; a request that is not in the table is no reason."""
    assert missing(request_name, code, ["b", "a", "b"]) == said


def test_the_cluster_has_no_name():
    """There is only one."""
    said = missing("Produce", 31, [])
    assert said == "grant IDEMPOTENT_WRITE on cluster (or WRITE on the topic, which includes it)"
    assert sorted(DENIED) == [29, 30, 31, 53]


def test_who_may_not_look_is_told_what_he_needs_next():
    """So that one grant is enough, not two after each other."""
    said = missing("FindCoordinator", 53, ["a"])
    assert said == (
        "grant DESCRIBE on transactional id 'a' (a sink needs WRITE, which includes it)"
    )
