"""What a look at the coordinator shows of a committable, in every state and at every distance."""

import pytest

from twophase.kafka.admin import TransactionDescription, TransactionState
from twophase.kafka.fate import Fate, fate_of
from twophase.kafka.identity import Identity, TransactionVersion

V1, V2 = TransactionVersion
IS = TransactionState
KNOWN = {
    (V2, IS.ONGOING, 0): Fate.OPEN,
    (V2, IS.PREPARE_COMMIT, 1): Fate.COMMITTED,
    (V2, IS.COMPLETE_COMMIT, 1): Fate.COMMITTED,
    (V2, IS.PREPARE_ABORT, 1): Fate.ABORTED,
    (V2, IS.COMPLETE_ABORT, 1): Fate.ABORTED,
    (V1, IS.ONGOING, 0): Fate.OPEN,
    (V1, IS.PREPARE_COMMIT, 0): Fate.COMMITTED,
    (V1, IS.COMPLETE_COMMIT, 0): Fate.COMMITTED,
    (V1, IS.PREPARE_ABORT, 0): Fate.ABORTED,
    (V1, IS.COMPLETE_ABORT, 0): Fate.ABORTED,
    (V1, IS.PREPARE_ABORT, 1): Fate.ABORTED,
    (V1, IS.COMPLETE_ABORT, 1): Fate.ABORTED,
}


@pytest.mark.parametrize("version", list(TransactionVersion))
@pytest.mark.parametrize("state", list(TransactionState))
@pytest.mark.parametrize("behind", [-1, 0, 1, 2, 3])
def test_every_state(version, state, behind):
    """Only what is listed is known; everything else is neither committed nor lost."""
    identity = Identity("id", 7, 10, version)
    seen = TransactionDescription("id", state, 7, 10 + behind, 1, 0, frozenset())
    assert fate_of(identity, seen) is KNOWN.get((version, state, behind), Fate.UNKNOWN)


def test_what_the_coordinator_has_forgotten():
    """No id, or one that was made anew with another producer id, says nothing."""
    identity = Identity("id", 7, 10, V2)
    other = TransactionDescription("id", IS.COMPLETE_COMMIT, 8, 11, 1, 0, frozenset())
    assert fate_of(identity, None) is Fate.UNKNOWN
    assert fate_of(identity, other) is Fate.UNKNOWN
