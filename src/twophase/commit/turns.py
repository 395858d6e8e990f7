"""The turns of one sink in one process: each batch once and in order, and what became of it."""

from dataclasses import dataclass

from twophase.commit.effects import Outcome
from twophase.commit.recovery import Batch
from twophase.errors import Fenced, WrongBatch


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of one call: what it wrote, and how long running and committing took.

    `rejected_rows` are those of its rows that the sink has put aside instead.
    """

    outcome: Outcome
    rows: int
    run_s: float
    commit_s: float
    warnings: tuple[str, ...]
    bytes: int = 0
    rejected_rows: int = 0


class Turns:
    """Refuses a batch that comes twice, or after one that failed; `run_id` is new at every start.

    A batch of which a user catches the error must not be followed by the next one: its rows would
    be missing, and nobody would know.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # By run and number: the last batch that is done, and one under way, or whose call failed.
        self._done: tuple[str, int] | None = None
        self._begun: tuple[str, int] | None = None
        self._fenced: tuple[str, Fenced] | None = None

    def begin(self, run_id: str, batch: Batch) -> bool:
        """Begin a batch; return whether it follows the last one, so that nothing is to be asked."""
        this = (run_id, batch.number)
        if self._fenced is not None and self._fenced[0] == run_id:
            # A user who calls again would take the sink back from its new owner.
            raise self._fenced[1]
        if self._done is not None and self._done[0] == run_id and batch.number <= self._done[1]:
            raise WrongBatch(
                f"batch {batch.number} was written in this run already: what the store notes of it "
                "stands for all of its rows; call the sink once for a batch, with all rows",
                sink=self._name,
            )
        failed = self._begun
        if failed is not None and failed[0] == run_id and failed != this:
            raise WrongBatch(
                f"batch {failed[1]} failed in this run and its error did not end the query; "
                f"batch {batch.number} would leave its rows out; let the sink's errors reach Spark",
                sink=self._name,
            )
        follows = failed is None and self._done == (run_id, batch.number - 1) and batch.first_try
        self._begun = this
        return follows

    def fence(self, run_id: str, error: Fenced) -> None:
        """Note that another driver has the sink: nothing of this run is ever written again."""
        self._fenced = (run_id, error)

    def end(self) -> None:
        """Note that the batch that was begun is in the store."""
        self._done, self._begun = self._begun, None
