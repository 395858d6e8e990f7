"""Seeded histories of task scope; and for each defence one without it, which must be found."""

import re
from collections import Counter
from contextlib import contextmanager

import pytest
from simulation.task_world import SimulatedByDriver, SimulatedForgetful, World

from twophase.commit.attempts import Stale
from twophase.errors import RecoveryError
from twophase.log.decisions import DecisionLog, Recorded
from twophase.log.verdict import Run, judge
from twophase.task_scope import TaskScope

SEEDS = range(700)


def violations(seeds, parts=None):
    """What the histories of these seeds have found, and what happened in them."""
    counts = Counter()
    for seed in seeds:
        world = World(seed, parts).play()
        counts += world.counts
        if world.violations:
            yield f"seed {seed}: {world.violations[0]}"
    yield counts


def test_every_row_is_there_once():
    """Whoever is killed, frozen, overtaken or without an answer; and nothing stays open."""
    *found, counts = violations(SEEDS)
    assert not found, found[:3]
    happened = {"Fenced", "StoreUnavailable", "ValueError", "killed", "run ended"}
    assert happened | {"zombie prepared"} <= set(counts), "the histories have become tame"


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize(
    "parts",
    [{}, {"sink": SimulatedByDriver}, {"sink": SimulatedForgetful}],
    ids=["names", "drivers", "forgetful"],
)
def test_every_row_is_there_once_for_long(parts):
    """The same, fifty thousand times."""
    *found, _ = violations(range(50_000), parts)
    assert not found, found[:3]


def test_names_that_do_not_say_the_batch():
    """It is enough to know which drivers can decide nothing any more."""
    *found, _ = violations(range(200), {"sink": SimulatedByDriver})
    assert not found, found[:3]


def test_a_store_that_drops_and_forgets():
    """What it has dropped is recorded, once, and then not asked for; the query always goes on."""
    *found, counts = violations(SEEDS, {"sink": SimulatedForgetful})
    assert not found, found[:3]
    happened = {"lost", "CommittableLost", "CommitOutcomeUnknown", ("forgotten", "dropped")}
    assert happened | {("forgotten", "committed")} <= set(counts), "it has become tame"


def test_a_seed_replays_exactly():
    """Whatever a seed shows, it shows again."""
    for seed in range(20):
        assert World(seed).play().trace == World(seed).play().trace


class WithoutVoid(TaskScope):
    """Takes a batch over without making the older driver's slot void."""

    def _start(self, batch):
        self._epoch = self._log.take_epoch({}, 0)
        look = self._log.look()
        verdict = judge(batch, look, "")
        if isinstance(verdict, RecoveryError):
            raise verdict
        if look.undone is not None:
            self._commit(look.undone, self._log.recorded(look.undone))
        self._sink.recover(Stale(self._prefix, self._epoch - 1, batch.number))
        return verdict.slot if isinstance(verdict, Run) else verdict


class RecoveringBeforeVoid(TaskScope):
    """Ends what an older driver has prepared while that one can still decide."""

    def _start(self, batch):
        self._sink.recover(Stale(self._prefix, 10**7, 10**9))
        return super()._start(batch)


class SweepingAll(TaskScope):
    """Ends after a batch whatever is open, also a newer driver's."""

    def _end_lost(self, _number):
        self._sink.recover(Stale(self._prefix, 10**7, 10**9))


class CommittingFirst(TaskScope):
    """Commits before the decision is written."""

    def _decided(self, batch, slot, tasks):
        @contextmanager
        def early(log):
            decide = log.decide
            log.decide = lambda d: (
                [self._commit_one(each, Recorded()) for each in d.prepared] and decide(d)
            )
            try:
                yield
            finally:
                log.decide = decide

        with early(self._log):
            return super()._decided(batch, slot, tasks)


class NotCommittingAgain(TaskScope):
    """Takes what was decided for committed."""

    def _start(self, batch):
        self._commit = lambda decision, _: self._log.record_done(decision)
        try:
            return super()._start(batch)
        finally:
            del self._commit


class NotSweeping(TaskScope):
    """Leaves what lost to itself."""

    def _end_lost(self, number):
        pass


class SweepingLaterBatches(TaskScope):
    """At its start ends what an older driver, still at work, has prepared for a later batch."""

    def _start(self, batch):
        found = super()._start(batch)
        self._sink.recover(Stale(self._prefix, self._epoch - 1, 10**9))
        return found


class EndingDriversOnASkip(TaskScope):
    """Takes older drivers for ended where one may be at work on a later batch."""

    def _start(self, batch):
        found = super()._start(batch)
        drivers = range(self._epoch)
        self._sink.recover(Stale(self._prefix, self._epoch - 1, batch.number, drivers))
        return found


class BelievingAFreeSlot(DecisionLog):
    """Decides in a slot that is free because others have gone on and trimmed it."""

    def is_latest(self, _batch):
        return True


class AskingForWhatIsLost(DecisionLog):
    """Believes no record of a loss, and asks the store, which has forgotten it."""

    def recorded(self, _decision):
        return Recorded()


class ExcusingAll(DecisionLog):
    """Takes a batch with a recorded loss for lost as a whole."""

    def recorded(self, decision):
        lost = super().recorded(decision).lost
        return Recorded({each.task: "lost" for each in decision.prepared} if lost else {})


class AskingForWhatIsCommitted(DecisionLog):
    """Believes of a record only what is lost, and asks the store for all else."""

    def recorded(self, decision):
        return Recorded(super().recorded(decision).lost)


class TakingTheRestForCommitted(DecisionLog):
    """Takes whatever is not recorded as lost for committed."""

    def recorded(self, decision):
        lost = super().recorded(decision).lost
        return Recorded(lost, frozenset(each.task for each in decision.prepared if lost))


@pytest.mark.parametrize(
    ("part", "harm"),
    [
        ({"scope": WithoutVoid}, "is gone"),
        ({"scope": RecoveringBeforeVoid}, "is gone"),
        ({"scope": SweepingAll}, "is gone"),
        ({"scope": CommittingFirst}, "are there 2 times"),
        ({"scope": NotCommittingAgain}, "are there 0 times"),
        ({"scope": NotSweeping}, "left open"),
        ({"scope": SweepingLaterBatches}, "is gone"),
        ({"scope": EndingDriversOnASkip, "sink": SimulatedByDriver}, "is gone"),
        ({"log": BelievingAFreeSlot}, "is gone|are there 2 times"),
        ({"log": AskingForWhatIsLost, "sink": SimulatedForgetful}, "are finished"),
        ({"log": AskingForWhatIsCommitted, "sink": SimulatedForgetful}, "are finished"),
        ({"log": TakingTheRestForCommitted, "sink": SimulatedForgetful}, "are there 0 times"),
        ({"log": ExcusingAll, "sink": SimulatedForgetful}, "recorded as lost, and committed"),
    ],
    ids=lambda part: next(iter(part.values())).__name__ if isinstance(part, dict) else "",
)
def test_without_a_defence(part, harm):
    """The histories find the harm that the defence prevents."""
    found = (each for each in violations(SEEDS, part) if isinstance(each, str))
    assert any(re.search(harm, each) for each in found)
