"""What to do with a batch, from what its marker and its last transaction say: one table.

| the marker says                    | this run made | last transaction     | then             |
|                                    | offsets/N     | of the id            |                  |
|------------------------------------|---------------|----------------------|------------------|
| this owner, batch N, same offsets  | any           | any                  | SKIP             |
| this owner, batch N, other offsets | any           | any                  | OffsetsChanged   |
| this owner, batch < N              | any           | any                  | RUN              |
| this owner, batch > N              | any           | any                  | CheckpointBehind |
| another owner                      | any           | any                  | OwnedByAnother   |
| not readable                       | any           | any                  | MarkerUnreadable |
| nothing                            | yes           | any                  | RUN              |
| nothing                            | no            | aborted or open      | RUN              |
| nothing                            | no            | never was, and N = 0 | RUN              |
| nothing                            | no            | anything else        | MarkerMissing    |

SKIP means that the batch is in the topic already: its plan is still executed, because state stores
advance only by that, and nothing is written. Every refusal says what is at risk either way and ends
with the commands that resolve it (`refusals.py`); nothing is guessed.
"""

from dataclasses import dataclass
from enum import Enum, auto

from twophase.commit import refusals
from twophase.commit.marker import Marker, Unreadable
from twophase.errors import RecoveryError


class Decision(Enum):
    """What to do with the batch."""

    RUN = auto()
    SKIP = auto()


class LastTransaction(Enum):
    """How the last transaction of the transactional id ended, before this owner took the id."""

    NEVER_WAS = auto()
    OPEN = auto()
    ABORTED = auto()
    COMMITTED = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Batch:
    """The batch at hand: whose it is, its number, and the hash of its source offsets.

    `first_try` is True only when it is certain that this run of the query made `offsets/N`, so
    that no earlier run can have committed the batch.
    """

    owner: str
    number: int
    offsets: str
    first_try: bool


def decide(  # noqa: PLR0911 - one return per row of the table
    batch: Batch, marker: Marker | Unreadable | None, last: LastTransaction
) -> Decision | RecoveryError:
    """Return what to do with the batch, or the error that refuses it."""
    match marker:
        case None:
            return _without_marker(batch, last)
        case Unreadable(why):
            return refusals.marker_unreadable(batch, why)
        case Marker(owner=owner) if owner != batch.owner:
            return refusals.owned_by_another(batch, marker)
        case Marker(batch=number) if number > batch.number:
            return refusals.checkpoint_behind(batch, marker)
        case Marker(batch=number) if number < batch.number:
            return Decision.RUN
        case Marker(offsets=offsets) if offsets != batch.offsets:
            return refusals.offsets_changed(batch, marker)
    return Decision.SKIP


def _without_marker(batch: Batch, last: LastTransaction) -> Decision | RecoveryError:
    if batch.first_try or last in {LastTransaction.OPEN, LastTransaction.ABORTED}:
        return Decision.RUN
    if last is LastTransaction.NEVER_WAS and batch.number == 0:
        return Decision.RUN
    return refusals.marker_missing(batch)
