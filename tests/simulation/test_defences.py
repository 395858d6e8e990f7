"""Each defence left out: the simulation finds the harm, within the seeds of a default run."""

import re
from dataclasses import replace

import pytest
from simulation.broker import V1
from simulation.driver import Driver, summed
from simulation.history import History
from simulation.seeds import DEFAULT_SEEDS

from twophase.commit import acts, events, notes
from twophase.commit.machine import TABLE, Machine, Row, State
from twophase.commit.memory import always
from twophase.commit.summary import Summary
from twophase.errors import CommitOutcomeUnknown
from twophase.kafka.identity import Identity


class WithoutFence(Driver):
    """Takes over the identity that it finds, as if it were its own."""

    def own(self, effect):
        seen = yield from self.look()
        if seen is None:
            return (yield from super().own(effect))
        broker = self.faults.history.broker
        self.generation, self.fences = broker.generation, broker.fences
        return events.Owned(Identity("sink", seen.producer_id, seen.epoch, self.version))


class ReacquiringByOwning(Driver):
    """Re-acquires by the bare form of InitProducerId."""

    def reacquire(self, _effect):
        found = yield from self.take()
        return events.Reacquired(Identity("sink", *found, self.version))


def machine_with(*rows):
    """Return a machine in whose table these rows go before all others."""
    return type("Changed", (Machine,), {"table": (*rows, *TABLE)})


class WithoutMarkerCheck(Driver):
    """Goes on after InitProducerId without reading the marker."""

    machine_class = machine_with(
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


class WithoutOffsetsHash(Driver):
    """Knows a batch by its number alone."""

    def offsets_hash(self, _offsets):
        return "any"


class WithoutRunId(Driver):
    """Takes a restart with the same sink object for the same run."""

    def run(self, _run_id):
        return "run"


class WithoutManifest(Driver):
    """Counts the blocks, and does not ask which attempt made them."""

    def checked(self):
        both = enumerate(self.blocks.blocks)
        return Summary(tuple(summed(partition, blocks) for partition, blocks in both if blocks))


class WithRetriedSenders(Driver):
    """Lets a send task send that was started again, beside what the first one has sent."""

    def lets_retry(self):
        return True


class WithAnotherEndTxn(Driver):
    """Ends a transaction by the other version's EndTxn, and goes on by its own version."""

    def end_version(self):
        return V1

    def following(self, identity, found):
        return super().following(identity, found) if self.version is V1 else identity


def unknown(known, _event):
    return isinstance(known.error, CommitOutcomeUnknown)


class TakingUnknownForFailed(Driver):
    """Sends the batch again after a commit without an answer."""

    machine_class = machine_with(
        Row(
            State.REACQUIRING,
            events.Reacquired,
            lambda m, e: unknown(m, e) and m.summary is not None and bool(m.summary.partitions),
            lambda m, e: replace(notes.reacquired(m, e), doubtful=True, asked=False),
            acts.send,
            State.SENDING,
        )
    )


class TakingUnknownForDone(Driver):
    """Believes a commit without an answer."""

    machine_class = machine_with(
        Row(
            State.COMMITTING,
            events.CommitUnknown,
            always,
            lambda m, _: notes.committed(m, events.Committed(None)),
            acts.read_back,
            State.CHECKING,
        )
    )


ROWS = r"is there twice|is not whole|is not there|lost or should not be there"


@pytest.mark.parametrize(
    ("double", "harm"),
    [
        (WithoutFence, ROWS),
        (ReacquiringByOwning, "took the id back"),
        (ReacquiringByOwning, ROWS),
        (WithoutMarkerCheck, ROWS),
        (WithoutOffsetsHash, ROWS),
        (WithoutRunId, "refused without a cause|fenced although"),
        (WithoutManifest, ROWS),
        (WithRetriedSenders, ROWS),
        (WithAnotherEndTxn, ROWS),
        (TakingUnknownForFailed, ROWS),
        (TakingUnknownForDone, ROWS),
    ],
)
def test_without_one_defence_the_harm_is_found(double, harm):
    """Some seed of a default run shows what the defence is there for."""
    for seed in DEFAULT_SEEDS:
        found = [text for text in History(seed, double).play().violations if re.search(harm, text)]
        if found:
            print(f"{double.__name__}: seed {seed}: {found[0]}")
            return
    pytest.fail(f"no seed of {DEFAULT_SEEDS} shows what {double.__name__} does")
