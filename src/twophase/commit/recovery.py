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
advance only by that, and nothing is written. Every refusal says what is at risk either way; nothing
is guessed.
"""

from dataclasses import dataclass
from enum import Enum, auto

from twophase.commit.marker import Marker, Unreadable
from twophase.errors import (
    CheckpointBehind,
    MarkerMissing,
    MarkerUnreadable,
    OffsetsChanged,
    OwnedByAnother,
    RecoveryError,
)


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
            return MarkerUnreadable(f"the marker of the sink cannot be believed: {why}")
        case Marker(owner=owner) if owner != batch.owner:
            return OwnedByAnother(
                f"the sink belongs to {owner}, which committed its batch {marker.batch} last; "
                f"this is {batch.owner}"
            )
        case Marker(batch=number) if number > batch.number:
            return CheckpointBehind(
                f"batch {number} is in the topic already and the checkpoint is at {batch.number}: "
                "it was rolled back or copied from an older one"
            )
        case Marker(batch=number) if number < batch.number:
            return Decision.RUN
        case Marker(offsets=offsets) if offsets != batch.offsets:
            return OffsetsChanged(
                f"batch {batch.number} is in the topic with other source offsets than the "
                "checkpoint has now: skipping it would lose rows, writing it would double rows"
            )
    return Decision.SKIP


def _without_marker(batch: Batch, last: LastTransaction) -> Decision | RecoveryError:
    if batch.first_try or last in {LastTransaction.OPEN, LastTransaction.ABORTED}:
        return Decision.RUN
    if last is LastTransaction.NEVER_WAS and batch.number == 0:
        return Decision.RUN
    return MarkerMissing(
        f"the marker of the sink is gone and batch {batch.number} may be in the topic or not: "
        "writing it could double its rows, skipping it could lose them"
    )
