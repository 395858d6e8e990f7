"""The transaction timeout grows when it was too short, and says so when it cannot grow."""

from twophase.errors import (
    ConfigurationError,
    EpochStale,
    RowRejected,
    StoreUnavailable,
    TransactionExpired,
)
from twophase.kafka.patience import Patience

ERROR = EpochStale("the broker says no")


def test_before_the_timeout_an_error_means_what_it_says():
    """Nothing changes."""
    patience = Patience(60_000)
    assert patience.judge(ERROR, 59.9) is ERROR
    assert patience.timeout_ms == 60_000


def test_an_error_of_another_kind_means_what_it_says():
    """A row that is refused, or a broker that is away, is no matter of time."""
    patience = Patience(60_000, 60_000)
    for error in (RowRejected("too large"), StoreUnavailable("no answer")):
        assert patience.judge(error, 100) is error


def test_it_grows_up_to_the_longest():
    """Ten times as long, then as long as the brokers allow, then refused with the settings."""
    patience = Patience(60_000, 900_000)
    assert isinstance(patience.judge(ERROR, 61), TransactionExpired)
    assert patience.timeout_ms == 600_000
    assert isinstance(patience.judge(ERROR, 601), TransactionExpired)
    assert patience.timeout_ms == 900_000
    refused = patience.judge(ERROR, 901)
    assert isinstance(refused, ConfigurationError)
    for said in ("transaction.max.timeout.ms", "kafka.transaction.timeout.ms", "maxOffsetsPerTrig"):
        assert said in str(refused)
    assert patience.timeout_ms == 900_000


def test_somebody_is_told_at_four_fifths():
    """Of the present timeout, which may have grown."""
    patience = Patience(10_000)
    assert patience.warn_after_s == 8
    patience.judge(ERROR, 11)
    assert patience.warn_after_s == 80
