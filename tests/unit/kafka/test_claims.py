"""Claiming an identity again: every state, every relation of epochs, both versions."""

import pytest

from twophase.kafka.admin import TransactionDescription, TransactionState
from twophase.kafka.claims import Claim, claim
from twophase.kafka.identity import Identity, TransactionVersion

V1, V2 = TransactionVersion.V1, TransactionVersion.V2
OURS, NEXT, LATER, OTHER = (7, 3), (7, 4), (7, 5), (8, 0)
ABORTED = {TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT}


def seen(state, at):
    return TransactionDescription("orders", state, *at, 60_000, -1, frozenset())


def expected(version, state, at):
    """The rule of the module, written the other way round."""
    if state is TransactionState.ONGOING:
        return Claim.ABORT_THEN_ASK if at == OURS else Claim.FENCED
    if version is V1 and state in ABORTED and at == NEXT:
        return Claim.ASK_WITH_NEXT_EPOCH
    return Claim.ASK


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("state", list(TransactionState))
@pytest.mark.parametrize("at", [OURS, NEXT, LATER, OTHER])
def test_every_state_and_epoch(version, state, at):
    """A rival's open transaction is never touched, and only version 1 reads a timeout by itself."""
    identity = Identity("orders", *OURS, version)
    assert claim(identity, seen(state, at)) is expected(version, state, at)


@pytest.mark.parametrize("version", [V1, V2])
def test_an_unknown_id_is_asked_for(version):
    """An id that expired is made anew by the broker, which fences whoever comes second."""
    assert claim(Identity("orders", *OURS, version), None) is Claim.ASK
