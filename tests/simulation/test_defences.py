"""Each defence left out: the simulation finds the harm, within the seeds of a default run."""

from dataclasses import replace

import pytest
from simulation.broker import V1, V2
from simulation.engine import Engine, summed
from simulation.parts import Shipped, machine_with, sink_with
from simulation.seeds import DEFAULT_SEEDS, first_harm

from twophase.commit import acts, events, memory, notes
from twophase.commit.machine import Row, State
from twophase.commit.marker import Marker
from twophase.commit.memory import always
from twophase.commit.recovery import Decision, LastTransaction
from twophase.commit.summary import Summary
from twophase.errors import CommitOutcomeUnknown
from twophase.kafka.admin import TransactionState, describe_transaction
from twophase.kafka.identity import Identity
from twophase.kafka.store import KafkaStore
from twophase.kafka.transactions import Transactions


class WithoutFence(KafkaStore):
    """Takes over the identity that it finds, as if it were its own."""

    def own(self):
        seen = describe_transaction(self._wire, self._name.transactional_id)
        if seen is None:
            return super().own()
        version = self._wire.transaction_version()
        identity = Identity(self._name.transactional_id, seen.producer_id, seen.epoch, version)
        return identity, LastTransaction.UNKNOWN


class ReacquiringByOwning(Transactions):
    """Re-acquires by the bare form of InitProducerId."""

    def proceed(self, claiming, _timeout_of=None):
        return self.own(claiming.identity.transactional_id)


class WithoutMarkerCheck(Shipped):
    """Goes on after InitProducerId without reading the marker."""

    machine = machine_with(
        Row(
            State.OWNING,
            events.Owned,
            always,
            lambda m, e: replace(notes.owned(m, e), settled=True, prepares=1),
            acts.prepare,
            State.PREPARING,
        ),
        Row(
            State.REACQUIRING,
            events.Reacquired,
            lambda m, _: m.summary is not None and bool(m.summary.partitions),
            lambda m, e: replace(notes.reacquired(m, e), doubtful=True),
            acts.send,
            State.SENDING,
        ),
    )


class WithoutPeek(Shipped):
    """Takes the id whatever the marker says, and is refused afterwards."""

    machine = machine_with(
        Row(
            State.NEW,
            events.BatchArrived,
            always,
            notes.run_began,
            acts.describe_last,
            State.DESCRIBING,
        )
    )


class PeekingStably(KafkaStore):
    """Waits for the end of the transaction that an owner at work has open."""

    def peek_marker(self):
        return self.read_marker()


class RefusingByAMissingMarker(Shipped):
    """Takes what the peek does not show for something that is not there."""

    machine = machine_with(
        Row(
            State.PEEKING,
            events.MarkerPeeked,
            memory.refused,
            notes.decision_refused,
            acts.stop,
            State.FAILED,
        )
    )


def seen_before(known, event):
    return isinstance(event.marker, Marker) and known.verdict(event.marker) is Decision.RUN


class BelievingThePeek(Shipped):
    """Reads the marker no more where the peek has shown one of a batch before."""

    machine = machine_with(
        Row(
            State.PEEKING,
            events.MarkerPeeked,
            seen_before,
            lambda m, _: replace(m, settled=True),
            acts.describe_last,
            State.DESCRIBING,
        ),
        Row(
            State.OWNING,
            events.Owned,
            lambda m, _: m.settled,
            lambda m, e: replace(notes.owned(m, e), prepares=1),
            acts.prepare,
            State.PREPARING,
        ),
    )


class WithoutOffsetsHash(Shipped):
    """Knows a batch by its number alone."""

    @staticmethod
    def offsets_hash(_offsets):
        return "any"


class WithoutRunId(Shipped):
    """Takes a restart with the same sink object for the same run."""

    @staticmethod
    def run_id(_run_id):
        return "run"


class WithoutManifest(Engine):
    """Counts the blocks, and does not ask which attempt made them."""

    def checked(self):
        both = enumerate(self.blocks.blocks)
        return Summary(tuple(summed(partition, blocks) for partition, blocks in both if blocks))


class WithRetriedSenders(Engine):
    """Lets a send task send that was started again, beside what the first one has sent."""

    def lets_retry(self):
        return True


class WithAnotherEndTxn(Transactions):
    """Ends a transaction by the other version's EndTxn, and goes on by its own version."""

    def _end(self, identity, *, commit, asked_before):
        super()._end(replace(identity, version=V1), commit=commit, asked_before=asked_before)
        return identity if identity.version is V2 else None


class WithoutSecondLook(KafkaStore):
    """Believes what it saw before it took the id, whatever has happened in between."""

    def own(self):
        before = self.describe_last()
        identity, _ = super().own()
        return identity, before


class WithABitForTheEpoch(KafkaStore):
    """Notes in the timeout only that its taker believed the sink to be new, and not when."""

    def describe_last(self):
        last = super().describe_last()
        seen = self._seen
        coded = seen is not None and seen.state is TransactionState.EMPTY and seen.timeout_ms % 100
        self._founded = not (seen is None or coded)
        return last if self._founded else LastTransaction.NEVER_WAS

    def own(self):
        for _ in range(3):
            seen, new = self._seen, not self._founded
            limit_ms = self._limit_ms(0) if new else self._limit_ms(None)
            identity = self._transactions.own(self._name.transactional_id, timeout_ms=limit_ms)
            follows = identity.epoch == (0 if seen is None else seen.epoch + 1)
            if not new or follows:
                break
            self.describe_last()
        return identity, LastTransaction.NEVER_WAS if new and follows else LastTransaction.UNKNOWN


def unknown(known, _event):
    return isinstance(known.error, CommitOutcomeUnknown)


class TakingUnknownForFailed(Shipped):
    """Sends the batch again after a commit without an answer."""

    machine = machine_with(
        Row(
            State.REACQUIRING,
            events.Reacquired,
            lambda m, e: unknown(m, e) and m.summary is not None and bool(m.summary.partitions),
            lambda m, e: replace(notes.reacquired(m, e), doubtful=True, asked=False),
            acts.send,
            State.SENDING,
        )
    )


class TakingUnknownForDone(Shipped):
    """Believes a commit without an answer."""

    machine = machine_with(
        Row(
            State.COMMITTING,
            events.CommitUnknown,
            always,
            lambda m, _: notes.committed(m, events.Committed(None)),
            acts.read_back,
            State.CHECKING,
        )
    )


TAKEN = "took the id, and the marker said"
ROWS = r"is there twice|is not whole|is not there|lost or should not be there"


@pytest.mark.parametrize(
    ("part", "harm"),
    [
        (WithoutFence, ROWS),
        (ReacquiringByOwning, "took the id back"),
        (ReacquiringByOwning, ROWS),
        (WithoutMarkerCheck, ROWS),
        (WithoutPeek, TAKEN),
        (PeekingStably, TAKEN),
        (RefusingByAMissingMarker, "refused without a cause"),
        (BelievingThePeek, ROWS),
        (WithoutOffsetsHash, ROWS),
        (WithoutRunId, "refused without a cause|fenced although"),
        (WithoutManifest, ROWS),
        (WithRetriedSenders, ROWS),
        (WithAnotherEndTxn, ROWS),
        (WithoutSecondLook, ROWS),
        (WithABitForTheEpoch, ROWS),
        (TakingUnknownForFailed, ROWS),
        (TakingUnknownForDone, ROWS),
    ],
)
def test_without_one_defence_the_harm_is_found(part, harm):
    """Some seed of a default run shows what the defence is there for."""
    found = first_harm(sink_with(part), harm)
    assert found is not None, f"no seed of {DEFAULT_SEEDS} shows what {part.__name__} does"
    print(f"{part.__name__}: seed {found[0]}: {found[1]}")
