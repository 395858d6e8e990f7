"""What the transaction timeout tells of a sink: the code, and when it is believed."""

import pytest

from twophase.kafka.admin import TransactionDescription, TransactionState
from twophase.kafka.founding import expected_epoch, time_limit_ms, unfounded

S = TransactionState


def seen(state, epoch, expected, configured_ms=60_000):
    """An id that was taken by somebody who expected an epoch, or (None) by a founded sink."""
    founded = expected is None
    timeout_ms = time_limit_ms(configured_ms, founded=founded, epoch=expected or 0)
    return TransactionDescription("orders", state, 7, epoch, timeout_ms, -1, frozenset())


def test_an_id_that_is_not_there():
    """Nothing can have been written under it, and its taker gets epoch 0."""
    assert unfounded(None)
    assert expected_epoch(None) == 0
    assert expected_epoch(seen(S.EMPTY, 3, 3)) == 4


@pytest.mark.parametrize("configured_ms", [100, 1_000, 59_999, 60_000, 900_000])
@pytest.mark.parametrize("epoch", [0, 1, 2, 98, 99, 100, 32_766])
def test_a_code_is_believed_where_it_agrees_with_the_epoch(configured_ms, epoch):
    """For every epoch and timeout; one epoch later somebody came between, and it is not."""
    assert unfounded(seen(S.EMPTY, epoch, epoch, configured_ms))
    assert not unfounded(seen(S.EMPTY, epoch + 2, epoch, configured_ms))
    assert not unfounded(seen(S.EMPTY, epoch, None, configured_ms))
    assert unfounded(seen(S.EMPTY, epoch + 1, epoch, configured_ms)) is (epoch == 0)


@pytest.mark.parametrize(
    ("state", "behind", "expected"),
    [
        (S.ONGOING, 0, True),
        (S.ONGOING, 1, False),
        (S.PREPARE_ABORT, 1, True),
        (S.COMPLETE_ABORT, 0, True),
        (S.COMPLETE_ABORT, 1, True),
        (S.COMPLETE_ABORT, 2, False),
        (S.PREPARE_COMMIT, 0, False),
        (S.COMPLETE_COMMIT, 0, False),
        (S.COMPLETE_COMMIT, 1, False),
        (S.DEAD, 0, False),
        (S.UNKNOWN, 0, False),
    ],
)
def test_what_may_have_happened_under_a_coded_epoch(state, behind, expected):
    """Its one transaction was opened or aborted; after a commit there is a marker to ask."""
    assert unfounded(seen(state, 5 + behind, 5)) is expected
    assert not unfounded(seen(state, 5 + behind, None))


@pytest.mark.parametrize("configured_ms", [1, 99, 100, 1_000, 45_678, 59_999, 60_000, 900_000])
def test_the_time_limit_stays_near_what_was_configured(configured_ms):
    """Never above it, but for less than a tenth of a second, and at most 0.2 s below."""
    for founded in (True, False):
        for epoch in range(200):
            limit_ms = time_limit_ms(configured_ms, founded=founded, epoch=epoch)
            assert 1 <= limit_ms <= max(configured_ms, 100)
            assert limit_ms > configured_ms - 200
