"""What each broker answer means: one table per request, one verdict per error code.

Theory of operation. A broker answers a request with an error code. What the code *means* depends on
the request: INVALID_TXN_STATE after EndTxn says that nothing is open to commit, after Produce that
the partition is not part of the transaction. So every request has a table of its own from code to
verdict, and there are only three kinds of verdict:

- `AGAIN`, `AGAIN_ELSEWHERE`: ask the same again, in the second case after looking up the leader or
  coordinator anew. The request may have been acted on all the same. Callers bound this in time.
- an error class: the store decided; asking again changes nothing. The class says what to do now.
- no entry: an answer this version does not know. It is never taken for success: `meaning` returns
  `CommitOutcomeUnknown` for EndTxn, which alone can have made something visible, and
  `CommitRejected` for the rest, after which nothing is committed.

The answers to EndTxn, for each state of the transaction, are tested against real brokers of both
protocol versions (tests/integration/kafka/test_end_transaction.py).
"""

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

import kafka.errors as kafka_errors

from twophase.errors import (
    AccessDenied,
    BlockRefused,
    CommitOutcomeUnknown,
    CommitRejected,
    ConfigurationError,
    EpochStale,
    Fenced,
    InvalidState,
    TwoPhaseError,
)


class Retry(Enum):
    """Ask the same again; whether it was acted on is not known."""

    AGAIN = auto()
    AGAIN_ELSEWHERE = auto()


AGAIN: Final = Retry.AGAIN
AGAIN_ELSEWHERE: Final = Retry.AGAIN_ELSEWHERE

Verdict = Retry | type[TwoPhaseError]
Table = Mapping[int, Verdict]

OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
INVALID_TIMESTAMP: Final = 32
TRANSACTIONAL_ID_NOT_FOUND: Final = 105


def _table(*parts: Mapping[int, Verdict]) -> Table:
    merged: dict[int, Verdict] = {}
    for part in parts:
        merged |= part
    return MappingProxyType(merged)


_COORDINATOR: Final[Mapping[int, Verdict]] = {
    7: AGAIN,  # REQUEST_TIMED_OUT
    13: AGAIN_ELSEWHERE,  # NETWORK_EXCEPTION
    14: AGAIN,  # COORDINATOR_LOAD_IN_PROGRESS
    15: AGAIN_ELSEWHERE,  # COORDINATOR_NOT_AVAILABLE
    16: AGAIN_ELSEWHERE,  # NOT_COORDINATOR
    51: AGAIN,  # CONCURRENT_TRANSACTIONS: the previous end is still being written out
    89: AGAIN,  # THROTTLING_QUOTA_EXCEEDED
}
_ACCESS: Final[Mapping[int, Verdict]] = {
    29: AccessDenied,  # TOPIC_AUTHORIZATION_FAILED
    30: AccessDenied,  # GROUP_AUTHORIZATION_FAILED
    31: AccessDenied,  # CLUSTER_AUTHORIZATION_FAILED
    53: AccessDenied,  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
}
_IDENTITY: Final[Mapping[int, Verdict]] = {
    47: EpochStale,  # INVALID_PRODUCER_EPOCH
    48: InvalidState,  # INVALID_TXN_STATE
    49: EpochStale,  # INVALID_PRODUCER_ID_MAPPING: another producer id owns the name, or none does
    59: EpochStale,  # UNKNOWN_PRODUCER_ID
    90: EpochStale,  # PRODUCER_FENCED
    120: InvalidState,  # TRANSACTION_ABORTABLE: it can only be aborted
}

INIT_PRODUCER_ID: Final = _table(
    _COORDINATOR,
    _ACCESS,
    {
        # Only here is a fence final: asked with producer id and epoch, the broker answers so after
        # a rival and not after its own timeout.
        47: Fenced,  # INVALID_PRODUCER_EPOCH
        90: Fenced,  # PRODUCER_FENCED
        50: ConfigurationError,  # INVALID_TRANSACTION_TIMEOUT
    },
)

ADD_PARTITIONS: Final = _table(
    _COORDINATOR,
    _ACCESS,
    _IDENTITY,
    {
        3: AGAIN,  # UNKNOWN_TOPIC_OR_PARTITION: a broker that has not heard of a new topic yet
        55: AGAIN,  # OPERATION_NOT_ATTEMPTED: another partition of the request was the reason
    },
)
ADD_OFFSETS: Final = _table(_COORDINATOR, _ACCESS, _IDENTITY)
TXN_OFFSET_COMMIT: Final = _table(
    _COORDINATOR,
    _ACCESS,
    _IDENTITY,
    {
        3: AGAIN,  # UNKNOWN_TOPIC_OR_PARTITION
        12: ConfigurationError,  # OFFSET_METADATA_TOO_LARGE
        24: ConfigurationError,  # INVALID_GROUP_ID
    },
)
END_TXN: Final = _table(_COORDINATOR, _ACCESS, _IDENTITY)
DESCRIBE_TRANSACTIONS: Final = _table(_COORDINATOR, _ACCESS)
LIST_TRANSACTIONS: Final = _table(_COORDINATOR, _ACCESS)
OFFSET_FETCH: Final = _table(
    _COORDINATOR,
    _ACCESS,
    {
        24: ConfigurationError,  # INVALID_GROUP_ID
        88: AGAIN,  # UNSTABLE_OFFSET_COMMIT
    },
)

PRODUCE: Final = _table(
    # Under V2 the leader asks the coordinator to add the partition, and hands on its answer.
    _COORDINATOR,
    _ACCESS,
    _IDENTITY,
    {
        2: AGAIN,  # CORRUPT_MESSAGE: damaged on the way; the checksum is right at the source
        3: AGAIN_ELSEWHERE,  # UNKNOWN_TOPIC_OR_PARTITION
        5: AGAIN_ELSEWHERE,  # LEADER_NOT_AVAILABLE
        6: AGAIN_ELSEWHERE,  # NOT_LEADER_OR_FOLLOWER
        8: AGAIN_ELSEWHERE,  # BROKER_NOT_AVAILABLE
        9: AGAIN_ELSEWHERE,  # REPLICA_NOT_AVAILABLE
        10: BlockRefused,  # MESSAGE_TOO_LARGE
        17: ConfigurationError,  # INVALID_TOPIC_EXCEPTION
        18: BlockRefused,  # RECORD_LIST_TOO_LARGE
        19: AGAIN,  # NOT_ENOUGH_REPLICAS
        20: AGAIN,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND: the repeat is recognised by its sequence
        21: ConfigurationError,  # INVALID_REQUIRED_ACKS
        INVALID_TIMESTAMP: BlockRefused,
        44: BlockRefused,  # POLICY_VIOLATION
        56: AGAIN_ELSEWHERE,  # KAFKA_STORAGE_ERROR
        74: AGAIN_ELSEWHERE,  # FENCED_LEADER_EPOCH
        75: AGAIN_ELSEWHERE,  # UNKNOWN_LEADER_EPOCH
        76: ConfigurationError,  # UNSUPPORTED_COMPRESSION_TYPE
        87: BlockRefused,  # INVALID_RECORD
    },
)


def name_of(code: int) -> str:
    """Return the broker's own name of an error code."""
    error = kafka_errors.for_code(code)
    return f"{getattr(error, 'message', error.__name__)} ({code})"


def meaning(table: Table, code: int) -> Verdict:
    """Return what a non-zero error code asks of the caller; unknown is never success."""
    verdict = table.get(code)
    if verdict is not None:
        return verdict
    return CommitOutcomeUnknown if table is END_TXN else CommitRejected
