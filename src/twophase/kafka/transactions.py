"""The life of a Kafka transaction by handle: own, re-acquire, add partitions, commit, abort.

A transaction belongs to whoever holds its `Identity`. Any process may write under it, each output
partition from exactly one of them, and one commit makes everything visible at once.

own ──> Identity ──> produce (any process) ──> commit ──> the next Identity (V2), or
                                     │            │         re-acquire for it (V1)
                                     └──> abort ──┘
re-acquire (after any doubt) ──> the next Identity, or Fenced for good
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.producer.transaction import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from twophase.commit.recovery import LastTransaction
from twophase.errors import (
    CommitOutcomeUnknown,
    EpochStale,
    Fenced,
    InvalidState,
    ProtocolViolation,
    StoreUnavailable,
)
from twophase.kafka import answers
from twophase.kafka.admin import describe_transaction
from twophase.kafka.claims import Claim, claim, outcome_of
from twophase.kafka.coordinator import Question, Unsettled, codes_of_all, settle
from twophase.kafka.identity import Identity, TopicPartition, TransactionVersion
from twophase.kafka.wire import TRANSACTION, Wire

_LOOKS_MAX = 5


@dataclass(slots=True)
class Claiming:
    """How far a re-acquire has come: the identity to go on from, and how its transaction ended.

    `raised`: the broker had raised the epoch, by its timeout or, for all that can be seen, because
    a rival came and went; what is asked for with it is not ours alone.
    """

    identity: Identity
    last: LastTransaction = LastTransaction.UNKNOWN
    raised: bool = False
    began: Identity = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.identity

    def note(self, last: LastTransaction) -> None:
        """Keep what is known; what a later look cannot see any more stays known."""
        if last is not LastTransaction.UNKNOWN:
            self.last = last


class Transactions:
    """Transactions of one cluster, for this process."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def own(
        self,
        transactional_id: str,
        *,
        timeout_ms: int | None = None,
        once: bool = False,
        alone: bool = False,
        version: TransactionVersion | None = None,
    ) -> Identity:
        """Fence every older owner of the id, end what it left open, and return the new identity.

        `timeout_ms` (kafka.transaction.timeout.ms unless given) is how long the broker lets a
        transaction of this identity stay open before it aborts it. `once`: `Unsettled` instead of
        asking again; `alone`: only where no answer came. `version`, if it is known.
        """
        version = version or self._wire.transaction_version()
        nobody = Identity(transactional_id, -1, -1, version)
        return self._init(nobody, timeout_ms, once=once, alone=alone)

    def reacquire(self, identity: Identity, *, timeout_ms: int | None = None) -> Identity:
        """Return a fresh identity after the broker's timeout or any doubt; `Fenced` after a rival.

        Never the bare form of InitProducerId: it would take the id back from its rightful new
        owner. What was open under this identity is aborted.
        """
        return self.proceed(Claiming(identity), lambda _: timeout_ms)

    def proceed(
        self, claiming: "Claiming", timeout_of: Callable[[int | None], int | None] = lambda _: None
    ) -> Identity:
        """Re-acquire from where an earlier try stopped, and note how far this one came.

        Started over with the first identity after its abort, the broker would take its owner for
        somebody who was fenced. `timeout_of` is told the epoch that is to come, or None where that
        is not certain, and says the timeout.
        """
        for _ in range(_LOOKS_MAX):
            identity = claiming.identity
            seen = describe_transaction(self._wire, identity.transactional_id)
            claiming.note(outcome_of(identity, seen))
            match claim(identity, seen):
                case Claim.FENCED:
                    raise Fenced("a newer owner has a transaction open", **identity.ids())
                case Claim.ABORT_THEN_ASK:
                    try:
                        claiming.identity = self.abort(identity) or identity
                    except (EpochStale, InvalidState):
                        continue  # It ended while we looked: look again.
                    if identity.version is TransactionVersion.V2:
                        claiming.note(LastTransaction.ABORTED)
                case Claim.ASK_WITH_NEXT_EPOCH:
                    claiming.raised = True
                    claiming.identity = identity.successor(identity.producer_id, identity.epoch + 1)
            if claiming.raised:
                self._init(claiming.identity, timeout_of(None))
                return self._init(identity.successor(-1, -1), timeout_of(None))
            return self._init(claiming.identity, timeout_of(claiming.identity.epoch + 1))
        raise StoreUnavailable("the transaction did not come to rest", **claiming.identity.ids())

    def expire(self, identity: Identity, *, timeout_ms: int) -> None:
        """Have an open transaction aborted as by the broker's timeout, its epoch raised by one.

        What came of it only a look tells: a broker answers that it is at work, or refuses, after it
        has done so. It compares no epoch while a transaction is open, so the asker looks before.
        """
        with suppress(Unsettled, Fenced):
            self._init(identity, timeout_ms, once=True)

    def _init(
        self,
        identity: Identity,
        timeout_ms: int | None,
        *,
        once: bool = False,
        alone: bool = False,
    ) -> Identity:
        if timeout_ms is None:
            timeout_ms = self._wire.options.transaction_timeout_ms

        def request() -> Any:
            return InitProducerIdRequest(
                transactional_id=identity.transactional_id,
                transaction_timeout_ms=timeout_ms,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                # v3 is the first that takes producer id and epoch; v6 is for KIP-939 only.
                min_version=3,
                max_version=5,
            )

        answer = settle(
            self._wire,
            Question(
                kind=TRANSACTION,
                key=identity.transactional_id,
                request=request,
                codes=_top_level,
                table=answers.INIT_PRODUCER_ID,
                ids=identity.ids(),
                advice=f"kafka.transaction.timeout.ms is {timeout_ms}",
                once=once,
                alone=alone,
            ),
        )
        return identity.successor(answer.producer_id, answer.producer_epoch)

    def add_partitions(
        self, identity: Identity, partitions: Iterable[TopicPartition], *, alone: bool = False
    ) -> None:
        """Make partitions part of the transaction before they are written to; nothing under V2.

        `alone`: `Unsettled` where no answer came, instead of asking again.
        """
        if identity.version is TransactionVersion.V2:
            return
        wanted = sorted(set(partitions))
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in wanted:
            by_topic[topic].append(partition)
        if not by_topic:
            return
        topic_of = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic

        def request() -> Any:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=identity.transactional_id,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.epoch,
                v3_and_below_topics=[topic_of(name=t, partitions=p) for t, p in by_topic.items()],
                max_version=3,  # v4 is for brokers
            )

        settle(
            self._wire,
            Question(
                kind=TRANSACTION,
                key=identity.transactional_id,
                request=request,
                codes=lambda answer: codes_of_all(
                    wanted,
                    (
                        ((topic.name, row.partition_index), row.partition_error_code)
                        for topic in answer.results_by_topic_v3_and_below
                        for row in topic.results_by_partition
                    ),
                ),
                table=answers.ADD_PARTITIONS,
                ids=identity.ids(),
                alone=alone,
                topics=tuple(by_topic),
            ),
        )

    def commit(self, identity: Identity, *, asked_before: bool = False) -> Identity | None:
        """Make the transaction visible; the next identity under V2, None under V1: re-acquire.

        May be repeated without harm; `asked_before` says that it is, so that a refusal is not taken
        for the fate of the first ask. Raises `CommitOutcomeUnknown` when an ask may have been acted
        on and no later one was answered with success: then only the marker can tell.
        """
        return self._end(identity, commit=True, asked_before=asked_before)

    def abort(self, identity: Identity) -> Identity | None:
        """Drop the transaction; the next identity under V2, None under V1: re-acquire."""
        return self._end(identity, commit=False, asked_before=False)

    def _end(self, identity: Identity, *, commit: bool, asked_before: bool) -> Identity | None:
        second = identity.version is TransactionVersion.V2

        def request() -> Any:
            return EndTxnRequest(
                transactional_id=identity.transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                committed=commit,
                min_version=5 if second else 0,
                max_version=5 if second else 4,
            )

        answer = settle(
            self._wire,
            Question(
                kind=TRANSACTION,
                key=identity.transactional_id,
                request=request,
                codes=_top_level,
                table=answers.END_TXN,
                ids=identity.ids(),
                advice="this was a commit" if commit else "this was an abort",
                in_doubt=CommitOutcomeUnknown,
                asked_before=asked_before,
            ),
        )
        if not second:
            return None
        following = identity.successor(answer.producer_id, answer.producer_epoch)
        if following.producer_id < 0 or following.epoch < 0 or following == identity:
            raise ProtocolViolation(
                f"EndTxn v5 answered with producer id {answer.producer_id} and epoch "
                f"{answer.producer_epoch}, which cannot follow",
                **identity.ids(),
            )
        return following


def _top_level(answer: Any) -> tuple[int]:
    return (answer.error_code,)
