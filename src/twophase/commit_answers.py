"""What came of the commits of one decision, and the one error that tells all of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from twophase.errors import (
    CommitError,
    CommitOutcomeUnknown,
    CommittableLost,
    StoreUnavailable,
)
from twophase.log.decision import Decision, Prepared

E = TypeVar("E", bound=CommitError)
Failed = tuple[Prepared, BaseException]


@dataclass(frozen=True)
class CommitAnswers:
    """Each committable of a decision with the error of its commit, or None.

    `prefix` and `root`, the place of the log, are for people.
    """

    decision: Decision
    told: Sequence[tuple[Prepared, BaseException | None]]
    prefix: str
    root: str

    @property
    def committed(self) -> tuple[Prepared, ...]:
        """What is in the store."""
        return tuple(each for each, error in self.told if error is None)

    @property
    def failed(self) -> list[Failed]:
        """What is not, as far as the store says."""
        return [(each, error) for each, error in self.told if error is not None]

    @property
    def lost(self) -> list[tuple[Prepared, CommittableLost]]:
        """What never will be."""
        return [(each, error) for each, error in self.failed if isinstance(error, CommittableLost)]

    @property
    def unsettled(self) -> list[Failed]:
        """What the next start asks for again."""
        return [each for each in self.failed if not isinstance(each[1], CommittableLost)]

    def lost_error(self) -> CommittableLost:
        """Return the error that says all that is lost, and what is not committed beside it."""
        return self._of_all(
            CommittableLost,
            self.lost,
            "were decided on and the store has dropped them",
            self._rest(self.unsettled),
            "write these rows by hand, or run the batch's source again for these tasks alone; then "
            'start with on_lost="record", which notes the loss there and goes on',
        )

    def unsettled_error(self) -> BaseException:
        """Return what stops the query once losses are recorded, first what no retry can mend.

        Outcomes that cannot be told are in one error: whoever looks for the rows of one only would
        take the others for committed.
        """
        unknown = [each for each in self.unsettled if isinstance(each[1], CommitOutcomeUnknown)]
        if not unknown:
            found = [error for _, error in self.unsettled]
            return next((e for e in found if not isinstance(e, StoreUnavailable)), found[0])
        rest = self._rest([each for each in self.unsettled if each not in unknown])
        if self.lost:
            rest += f"; {len(self.lost)} are recorded as lost"
        return self._of_all(
            CommitOutcomeUnknown,
            unknown,
            "were decided on, and whether they are committed cannot be told",
            rest,
            "the next start asks again",
        )

    def rows_of(self, prepared: Prepared, error: BaseException) -> str:
        """Say which rows they are, and what the store said of them."""
        why = error.message if isinstance(error, CommitError) else error
        return (
            f"{prepared.rows} rows of task {prepared.task} of batch {self.decision.batch}, "
            f"transaction {prepared.name} ({why})"
        )

    def _of_all(
        self, kind: type[E], found: Sequence[Failed], what: str, rest: str, advice: str
    ) -> E:
        error = kind(
            f"{sum(each.rows for each, _ in found)} rows in {len(found)} of {len(self.told)} "
            f"transactions of batch {self.decision.batch} {what}: "
            f"{'; '.join(self.rows_of(*each) for each in found)}; {rest}; the whole decision is in "
            f"{self.root}; {advice}",
            prefix=self.prefix,
            batch=self.decision.batch,
            tasks=[each.task for each, _ in found],
            committables=[each.committable for each, _ in found],
        )
        error.__cause__ = found[0][1]
        return error

    def _rest(self, others: Sequence[Failed]) -> str:
        """Say what became of the others; some have been told of already."""
        committed = len(self.committed)
        if others:
            return (
                f"of all else {committed} are committed and {len(others)} are not yet, which the "
                f"next start asks for again ({'; '.join(str(error) for _, error in others)})"
            )
        return "all else of the batch is committed" if committed else "nothing else is in the batch"
