"""What the coordinator's words say about how a transaction ended."""

import pytest

from twophase.commit.recovery import LastTransaction
from twophase.kafka.admin import TransactionDescription, TransactionState
from twophase.kafka.claims import last_of, outcome_of, witnessed
from twophase.kafka.identity import Identity, TransactionVersion

S, L = TransactionState, LastTransaction
V1, V2 = TransactionVersion.V1, TransactionVersion.V2


def seen(state, epoch=3, producer_id=7, timeout_ms=60_000):
    return TransactionDescription("orders", state, producer_id, epoch, timeout_ms, -1, frozenset())


@pytest.mark.parametrize(
    ("version", "state", "epoch", "expected"),
    [
        (V1, S.COMPLETE_COMMIT, 3, L.COMMITTED),
        (V1, S.PREPARE_COMMIT, 3, L.COMMITTED),
        (V1, S.COMPLETE_COMMIT, 4, L.UNKNOWN),
        (V1, S.COMPLETE_ABORT, 3, L.UNKNOWN),
        (V1, S.COMPLETE_ABORT, 4, L.UNKNOWN),
        (V2, S.COMPLETE_COMMIT, 4, L.COMMITTED),
        (V2, S.COMPLETE_COMMIT, 3, L.UNKNOWN),
        (V2, S.COMPLETE_ABORT, 4, L.ABORTED),
        (V2, S.COMPLETE_ABORT, 3, L.UNKNOWN),
        (V2, S.EMPTY, 4, L.UNKNOWN),
        (V2, S.ONGOING, 3, L.UNKNOWN),
    ],
)
def test_how_our_own_transaction_ended(version, state, epoch, expected):
    """Only what belongs to our epoch, or to its one end, tells anything."""
    assert outcome_of(Identity("orders", 7, 3, version), seen(state, epoch)) is expected


def test_another_producer_id_tells_nothing():
    """Nor does an id that the coordinator has forgotten."""
    identity = Identity("orders", 7, 3, V2)
    assert outcome_of(identity, seen(S.COMPLETE_COMMIT, 4, producer_id=8)) is L.UNKNOWN
    assert outcome_of(identity, None) is L.UNKNOWN


@pytest.mark.parametrize(
    ("state", "timeout_ms", "expected"),
    [
        (S.EMPTY, 59_996, L.NEVER_WAS),
        (S.EMPTY, 59_999, L.UNKNOWN),
        (S.EMPTY, 60_000, L.UNKNOWN),
        (S.ONGOING, 59_996, L.NEVER_WAS),
        (S.ONGOING, 60_000, L.OPEN),
        (S.COMPLETE_COMMIT, 59_996, L.COMMITTED),
        (S.PREPARE_ABORT, 60_000, L.ABORTED),
        (S.DEAD, 60_000, L.UNKNOWN),
    ],
)
def test_how_the_last_transaction_of_the_id_ended(state, timeout_ms, expected):
    """EMPTY hides what was before it, but for an id that was taken as unfounded."""
    assert last_of(seen(state, timeout_ms=timeout_ms)) is expected
    assert last_of(None) is L.NEVER_WAS


@pytest.mark.parametrize(
    ("version", "before", "taken", "expected"),
    [
        (V2, None, (9, 0), L.NEVER_WAS),
        (V2, None, (9, 1), L.NEVER_WAS),
        (V2, None, (9, 2), L.UNKNOWN),
        (V1, seen(S.EMPTY, timeout_ms=59_996), (7, 4), L.NEVER_WAS),
        (V1, seen(S.EMPTY, timeout_ms=59_996), (7, 5), L.UNKNOWN),
        (V1, seen(S.EMPTY, timeout_ms=59_999), (7, 4), L.UNKNOWN),
        (V1, seen(S.EMPTY, timeout_ms=60_000), (7, 4), L.UNKNOWN),
        (V2, seen(S.COMPLETE_ABORT), (7, 4), L.ABORTED),
        (V2, seen(S.COMPLETE_ABORT), (7, 5), L.UNKNOWN),
        (V2, seen(S.COMPLETE_ABORT), (8, 0), L.UNKNOWN),
        (V1, seen(S.COMPLETE_ABORT), (7, 4), L.UNKNOWN),
        (V2, seen(S.ONGOING), (7, 4), L.UNKNOWN),
        (V2, seen(S.COMPLETE_COMMIT), (7, 4), L.COMMITTED),
    ],
)
def test_what_of_a_look_holds_once_the_id_is_taken(version, before, taken, expected):
    """An older owner may have gone on in between; only what excludes that is certain."""
    assert witnessed(before, Identity("orders", *taken, version)) is expected
