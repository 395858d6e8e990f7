"""How long a transaction may be open: as configured, longer once that was too short.

The broker aborts a transaction that is open for longer than its timeout. Nothing is lost by it,
since the blocks are kept; but sent again under the same timeout they would be cut off again. So the
next identity is taken with a longer one, up to the longest that the brokers allow.
"""

import logging
from typing import Final

from twophase.errors import ConfigurationError, EpochStale, InvalidState, TransactionExpired

_log = logging.getLogger("twophase")

_GROWTH: Final = 10
# Kafka's own default of transaction.max.timeout.ms, where the brokers do not let it be read.
_LONGEST_MS: Final = 900_000
_WARN_AT: Final = 0.8


class Patience:
    """The transaction timeout of one sink, which grows."""

    def __init__(self, timeout_ms: int, longest_ms: int | None = None) -> None:
        self.timeout_ms = timeout_ms
        self._longest_ms = max(timeout_ms, longest_ms or _LONGEST_MS)

    @property
    def warn_after_s(self) -> float:
        """How long a transaction may be open before somebody should know."""
        return self.timeout_ms / 1000 * _WARN_AT

    def warn(self) -> None:
        """Say that a transaction is about to be cut off."""
        _log.warning(
            "a transaction is open for %d %% of kafka.transaction.timeout.ms=%d; if it does not end"
            " in time the broker aborts it and the batch is sent again with a longer one",
            *(_WARN_AT * 100, self.timeout_ms),
        )

    def judge(self, error: Exception, open_s: float) -> Exception:
        """Return what an error means that came when a transaction had been open for `open_s`.

        Where the broker does not know the transaction any more, and its time is over, that is its
        timeout: the next identity gets more time, or where there is no more, the error says which
        settings to change. Any other error means what it says.
        """
        if open_s * 1000 < self.timeout_ms or not isinstance(error, EpochStale | InvalidState):
            return error
        limit_ms = self.timeout_ms
        said = f"the transaction was open for {open_s:.0f} s and its limit was {limit_ms} ms"
        if limit_ms >= self._longest_ms:
            return ConfigurationError(
                f"{said}, the longest that the brokers allow; nothing of the batch is visible: "
                "raise transaction.max.timeout.ms on the brokers and kafka.transaction.timeout.ms "
                "here, or make the batches smaller (maxOffsetsPerTrigger, maxFilesPerTrigger)"
            )
        self.timeout_ms = min(limit_ms * _GROWTH, self._longest_ms)
        _log.warning("%s; the batch is sent again with %d ms", said, self.timeout_ms)
        return TransactionExpired(
            f"{said} (kafka.transaction.timeout.ms); it is sent again with {self.timeout_ms} ms: "
            f"{error}"
        )
