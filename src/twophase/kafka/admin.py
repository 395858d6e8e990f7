"""What the broker itself says about transactions: describe one, list those of a prefix."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest

from twophase.errors import CommitRejected, StoreUnavailable
from twophase.kafka import answers
from twophase.kafka.coordinator import Question, codes_of_all, settle
from twophase.kafka.identity import TopicPartition
from twophase.kafka.wire import TRANSACTION, Wire


class TransactionState(StrEnum):
    """The coordinator's state of a transactional id, in the broker's own words."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, value: object) -> "TransactionState":  # noqa: ARG003 - the enum's own name
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transactional id as its coordinator sees it."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int
    partitions: frozenset[TopicPartition]

    @property
    def is_open(self) -> bool:
        """Whether a transaction can be written to, committed or aborted."""
        return self.state is TransactionState.ONGOING


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """One line of the cluster's list of transactional ids."""

    transactional_id: str
    producer_id: int
    state: TransactionState


def describe_transaction(wire: Wire, transactional_id: str) -> TransactionDescription | None:
    """Return the state of a transactional id, or None where the coordinator has none."""
    answer = settle(
        wire,
        Question(
            kind=TRANSACTION,
            key=transactional_id,
            request=lambda: DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            codes=lambda answer: (
                code
                for code in codes_of_all(
                    [transactional_id],
                    ((row.transactional_id, row.error_code) for row in answer.transaction_states),
                )
                if code != answers.TRANSACTIONAL_ID_NOT_FOUND
            ),
            table=answers.DESCRIBE_TRANSACTIONS,
            ids={"transactional_id": transactional_id},
        ),
    )
    (row,) = answer.transaction_states
    if row.error_code == answers.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    return TransactionDescription(
        transactional_id=transactional_id,
        state=TransactionState(row.transaction_state),
        producer_id=row.producer_id,
        epoch=row.producer_epoch,
        timeout_ms=row.transaction_timeout_ms,
        started_ms=row.transaction_start_time_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in row.topics
            for partition in topic.partitions
        ),
    )


def list_transactions(
    wire: Wire, *, prefix: str = "", states: tuple[TransactionState, ...] = ()
) -> tuple[TransactionListing, ...]:
    """Return every transactional id that starts with `prefix`, from all coordinators.

    Raises where a known broker does not answer: a list that is silently short would hide what
    lingers.
    """
    found = []
    for node in wire.nodes():
        answer = wire.ask(_list_request(states), node)
        if answer.error_code:
            verdict = answers.meaning(answers.LIST_TRANSACTIONS, answer.error_code)
            kind = StoreUnavailable if isinstance(verdict, answers.Retry) else verdict
            raise kind(f"node {node} lists no transactions: {answers.name_of(answer.error_code)}")
        if answer.unknown_state_filters:
            raise CommitRejected(
                f"node {node} does not know the states {answer.unknown_state_filters}"
            )
        found += [
            TransactionListing(
                row.transactional_id, row.producer_id, TransactionState(row.transaction_state)
            )
            for row in answer.transaction_states
            if row.transactional_id.startswith(prefix)
        ]
    return tuple(sorted(found, key=lambda row: row.transactional_id))


def _list_request(states: tuple[TransactionState, ...]) -> Any:
    # The prefix is matched here: a pattern in the request needs Kafka 4.1.
    return ListTransactionsRequest(
        state_filters=[str(state) for state in states], producer_id_filters=[]
    )
