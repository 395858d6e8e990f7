"""The driver's loop of task scope: one transaction for each task, one decision for the batch.

What it must survive, and by what:

- **The driver dies** before the decision: the next one ends what was prepared. After it: the next
  one commits it again, all of it. While the decision is written: the file is there whole, or not.
- **An older driver lives on**, frozen and awake again. A driver that takes over a batch first makes
  its open slot void; the older one then finds its slot taken when it decides, and stops. Names
  carry the driver's epoch and the batch, so that an older one never ends what a newer one has
  prepared, nor a newer one that came too late what an older one has for a later batch.
- **The decision's answer is lost**: nothing is done but stop. The next start reads what is true.
- **Attempts that lost** (speculation, retries, an executor lost after it prepared) are in no
  decision. They are ended after the batch, and again at every start.
- **The store has dropped what was decided**: the rows are lost, and nobody can hide that. The query
  stops and says what is missing, or, by the user's choice, goes on and leaves a record of it.
- **The driver dies behind such a record**, and the store forgets meanwhile what it has dropped, and
  what it has committed: it could not tell them apart any more. So the record says both, and of that
  nothing is asked for again. It does not say what to do about a loss: that is the user's choice of
  now.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final, Protocol

from twophase.call_watch import CallWatch, Phase, Recovery
from twophase.clock import Clock
from twophase.commit.attempts import Stale, Turn, name_of
from twophase.commit.effects import Outcome
from twophase.commit.recovery import Batch
from twophase.commit.turns import Ended, Turns
from twophase.commit_answers import CommitAnswers
from twophase.errors import (
    CommitOutcomeUnknown,
    CommittableLost,
    Fenced,
    ProtocolViolation,
    RecoveryError,
    StoreUnavailable,
    TransactionExpired,
)
from twophase.log.decision import Decision, Prepared
from twophase.log.decisions import DecisionLog, Recorded
from twophase.log.verdict import Skip, judge
from twophase.options import one_of
from twophase.time_limit import TimeLimit
from twophase.two_phase import TwoPhaseCommitSink

_log = logging.getLogger("twophase")

_ROUNDS_MAX: Final = 100
_COMMITS_AT_ONCE: Final = 8
_COMMIT_TRIES: Final = 6
_FIRST_PAUSE_S: Final = 0.1


class OnLost(StrEnum):
    """What to do where the store has dropped rows that were decided on."""

    FAIL = "fail"
    RECORD = "record"

    @classmethod
    def parse(cls, value: object) -> "OnLost":
        """Read the user's choice."""
        return one_of(cls, "on_lost", value)


class Tasks(Protocol):
    """The tasks of one batch."""

    def run(self, turn: Turn, anew: Callable[[], None]) -> list[Prepared]:
        """Run all, and return what the winning attempt of each has prepared, if it had rows.

        Before all of them are run once more, `anew` ends what they have begun.
        """

    def execute(self) -> None:
        """Execute the plan and write nothing."""


class TaskScope:
    """One sink in one driver process; `run_id` changes with every start of the query."""

    def __init__(
        self,
        sink: TwoPhaseCommitSink[Any],
        log: DecisionLog,
        prefix: str,
        *,
        on_lost: OnLost = OnLost.FAIL,
        clock: Clock | None = None,
        pool: Callable[[int], Executor] = ThreadPoolExecutor,
    ) -> None:
        self._sink = sink
        self._log = log
        self._prefix = prefix
        self._on_lost = on_lost
        self._clock = clock or Clock()
        self._pool = pool
        self._epoch = 0
        self._turns = Turns(prefix)
        self._warnings: list[str] = []
        self._watch = CallWatch()
        self._limit = TimeLimit(self._clock, None, lambda _: None)

    def write(
        self, run_id: str, batch: Batch, tasks: Tasks, watch: CallWatch | None = None
    ) -> Ended:
        """Bring one batch into the store exactly once, or raise why a person has to look."""
        self._watch = watch or CallWatch()
        try:
            return self._write(run_id, batch, tasks)
        except Fenced as error:
            self._turns.fence(run_id, error)
            raise

    def _write(self, run_id: str, batch: Batch, tasks: Tasks) -> Ended:
        self._warnings = []
        number = batch.number
        goes_on = self._turns.begin(run_id, batch)
        slot = 0
        if not goes_on:
            self._watch.recovered = Recovery.STARTED
            verdict = self._start(batch)
            if isinstance(verdict, Skip):
                self._watch.phase = Phase.ENCODE
                tasks.execute()
                self._turns.end()
                return Ended(Outcome.SKIPPED, 0, 0.0, 0.0, tuple(self._warnings))
            slot = verdict
        began_s = self._clock.now_s()
        try:
            decision = self._decided(batch, slot, tasks)
            decided_s = self._clock.now_s()
            self._watch.phase = Phase.COMMIT
            committed = self._commit(decision, Recorded())
        finally:
            self._limit.ends()
        self._watch.closes()
        committed_s = self._clock.now_s()
        self._turns.end()
        # Nobody who came before can decide this batch any more, and so no later one.
        self._end_lost(replace(self._turn(number).stale, ended=range(self._epoch + 1)))
        self._log.trim(number)
        return Ended(
            Outcome.COMMITTED,
            committed.rows - committed.rejected_rows,
            decided_s - began_s,
            committed_s - decided_s,
            tuple(self._warnings),
            committed.bytes,
            committed.rejected_rows,
        )

    def _start(self, batch: Batch) -> Skip | int:
        """Take the sink over; return the slot to decide in, or that the batch is there already."""
        now_ms = self._clock.wall_ms()
        self._epoch = self._log.take_epoch({"owner": batch.owner, "at_ms": now_ms}, now_ms // 1000)
        owned = False
        for _ in range(_ROUNDS_MAX):
            look = self._log.look()
            verdict = judge(batch, look, self._log.root)
            if isinstance(verdict, RecoveryError):
                raise verdict
            if not owned:
                self._sink.own(self._prefix, self._epoch, batch.owner)
                owned = True
            # Slots are taken in the order of epochs: whoever takes one ends what older ones have.
            if any(each.epoch > self._epoch for each in look.of(batch.number)):
                raise self._replaced(batch.number, "a driver that started later was faster")
            if look.undone is not None:
                self._watch.recovered = Recovery.COMMITTED_AGAIN
                self._commit(look.undone, self._log.recorded(look.undone))
            # From here on nobody who came before can decide this batch, also not an earlier try of
            # our own whose answer was lost; only then may what it has prepared be ended.
            if isinstance(verdict, Skip) or self._log.decide(
                self._decision(batch, verdict.slot, None)
            ):
                break
        else:
            raise StoreUnavailable(f"{_ROUNDS_MAX} times another driver came first in {self._root}")
        stale = Stale(self._prefix, self._epoch - 1, batch.number)
        if isinstance(verdict, Skip):
            # An older driver may be alive, and at work on a later batch.
            self._sink.recover(stale)
            return verdict
        # The slot may have been free only because others have long gone on and trimmed the log.
        if not self._log.is_latest(batch.number):
            raise self._replaced(batch.number, "a later batch is there")
        self._sink.recover(replace(stale, ended=range(self._epoch)))
        return verdict.slot + 1

    def _decided(self, batch: Batch, slot: int, tasks: Tasks) -> Decision:
        """Run the tasks and decide; from the return on the batch counts as written."""
        limit_s = self._sink.time_limit_s
        turn = self._turn(batch.number)
        self._watch.phase = Phase.SEND
        self._limit = TimeLimit(
            self._clock, limit_s, lambda spent_s: self._warn(batch.number, spent_s)
        )
        # Tasks begin theirs later than this: none of them is older.
        self._opens()

        def anew() -> None:
            self._sink.recover(turn.stale)
            self._opens()

        try:
            prepared = tasks.run(replace(turn, given=self._sink.open(turn)), anew)
            _check_tasks(prepared)
            self._sink.confirm([each.committable for each in prepared])
        except Exception:
            # Nothing of it is decided, nor will be: a store should not have to hold it.
            self._end_lost(turn.stale)
            raise
        if self._limit.is_too_late:
            spent_s = self._limit.spent_s
            self._end_lost(turn.stale)
            raise TransactionExpired(
                f"the tasks of batch {batch.number} took {spent_s:.0f} s and the store keeps a "
                f"transaction for {limit_s:.0f} s, which leaves no time to commit; nothing is "
                "committed; make batches smaller or the limit longer",
                prefix=self._prefix,
            )
        decision = self._decision(batch, slot, tuple(sorted(prepared, key=lambda p: p.task)))
        # A slot may also be free again because others have long gone on and trimmed the log.
        if not self._log.decide(decision) or not self._log.is_latest(batch.number):
            self._end_lost(turn.stale)
            raise self._replaced(batch.number, f"slot {slot} is taken, or a later batch is there")
        return decision

    def _opens(self) -> None:
        """Count the age of what the tasks begin from now on."""
        self._watch.closes()
        self._watch.opens(self._sink.time_limit_s)
        self._limit.begins()

    def _warn(self, number: int, spent_s: float) -> None:
        self._tell(
            f"transactions of batch {number} of sink {name_of(self._prefix).sink_id} are open for "
            f"{spent_s:g} s of the {self._sink.time_limit_s:g} s that the store keeps them"
        )

    def _tell(self, text: str) -> None:
        """Say at once what the batch's record says only when all has gone well."""
        self._warnings.append(text)
        _log.warning(text)

    def _commit(self, decision: Decision, recorded: Recorded) -> Decision:
        """Commit what was decided, say so in the log, and return what of it is in the store."""
        prepared = decision.prepared or ()
        with self._pool(min(_COMMITS_AT_ONCE, max(1, len(prepared)))) as pool:
            commits = [pool.submit(self._commit_one, each, recorded) for each in prepared]
        told = [(each, commit.exception()) for each, commit in zip(prepared, commits, strict=True)]
        answers = CommitAnswers(decision, told, self._prefix, self._root)
        self._check_not_replaced(decision, [error for _, error in answers.failed])
        if answers.lost:
            self._lost(answers)
        if answers.unsettled:
            raise answers.unsettled_error()
        self._log.record_done(decision)
        return replace(decision, prepared=answers.committed)

    def _commit_one(self, prepared: Prepared, recorded: Recorded) -> None:
        why = recorded.lost.get(prepared.task)
        if why is not None:
            raise CommittableLost(f"{why}; recorded by an earlier start")
        if prepared.task in recorded.committed:
            return None
        pause_s = _FIRST_PAUSE_S
        for _ in range(_COMMIT_TRIES - 1):
            try:
                return self._sink.commit(prepared.committable)
            except StoreUnavailable as error:
                _log.warning("commit of %s failed and is tried again: %s", prepared.name, error)
                self._watch.retried()
            self._clock.sleep(pause_s)
            pause_s *= 2
        return self._sink.commit(prepared.committable)

    def _lost(self, answers: CommitAnswers) -> None:
        """Stop and say all that is missing, or leave a record of each and go on."""
        if self._on_lost is OnLost.FAIL:
            raise answers.lost_error()
        committed = [each.task for each in answers.committed]
        for each, error in answers.lost:
            place = self._log.record_lost(answers.decision, each, error.message, committed)
            self._tell(
                f"{answers.rows_of(each, error)}; decided on, and the store has dropped them; "
                f"recorded in {place}"
            )

    def _check_not_replaced(self, decision: Decision, failed: list[BaseException]) -> None:
        """Raise `Fenced` where the store may refuse only because others have long gone on."""
        for error in failed:
            # A store that fences by itself knows better than whatever else was found.
            if isinstance(error, Fenced) or not isinstance(error, Exception):
                raise error
        refused = [e for e in failed if isinstance(e, CommittableLost | CommitOutcomeUnknown)]
        if not refused:
            return
        if self._log.is_done(decision) or not self._log.is_latest(decision.batch):
            raise Fenced(
                f"another driver has committed batch {decision.batch} and gone on; this one stops",
                prefix=self._prefix,
                epoch=self._epoch,
            ) from refused[0]

    def _turn(self, number: int) -> Turn:
        return Turn(self._prefix, self._epoch, number)

    def _replaced(self, number: int, how: str) -> Fenced:
        return Fenced(
            f"another driver has taken over batch {number} ({how} in {self._root}); this one stops",
            prefix=self._prefix,
            epoch=self._epoch,
        )

    def _end_lost(self, stale: Stale) -> None:
        """End what lost; what fails is done again later."""
        try:
            self._sink.recover(stale)
        except Exception as error:  # noqa: BLE001 - the batch is decided, whatever this says
            self._warnings.append(f"what lost could not be ended: {error}")
            _log.warning("%s: what lost could not be ended: %s", self._prefix, error)

    def _decision(self, batch: Batch, slot: int, prepared: tuple[Prepared, ...] | None) -> Decision:
        return Decision(
            batch=batch.number,
            slot=slot,
            owner=batch.owner,
            offsets=batch.offsets,
            epoch=self._epoch,
            time_ms=self._clock.wall_ms(),
            prepared=prepared,
        )

    @property
    def _root(self) -> str:
        return self._log.root


def _check_tasks(prepared: list[Prepared]) -> None:
    tasks = [each.task for each in prepared]
    if len(set(tasks)) != len(tasks):
        raise ProtocolViolation(f"two attempts of one task won: {sorted(tasks)}")
