"""What to do with a batch, from what the decision log says: one table.

| the log says                               | then                            |
|--------------------------------------------|---------------------------------|
| a decision of another owner                | OwnedByAnother                  |
| a later batch is decided                   | CheckpointBehind                |
| the batch is decided, with other offsets   | OffsetsChanged                  |
| the batch is decided                       | SKIP, once all of it is done    |
| slots of the batch are void, or none is    | RUN in the next slot            |
"""

from dataclasses import dataclass

from twophase.commit.recovery import Batch
from twophase.errors import CheckpointBehind, OffsetsChanged, OwnedByAnother, RecoveryError
from twophase.log.decision import Decision
from twophase.log.decisions import Look


@dataclass(frozen=True, slots=True)
class Run:
    """The batch is not in the store; whoever decides it does so in this slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class Skip:
    """The batch is in the store, by this decision."""

    decision: Decision


def judge(batch: Batch, look: Look, root: str) -> Run | Skip | RecoveryError:
    """Return what to do with the batch, or the error that refuses it; `root` is for people."""
    for each in look.decisions:
        if each.owner != batch.owner:
            return OwnedByAnother(
                f"the decision log in {root} belongs to {each.owner}, and this is {batch.owner}: "
                "two queries in one log would each take the other's batches for their own; give "
                "this one a sink_id or a folder of its own"
            )
    latest = max((each.batch for each in look.decisions if each.commits), default=-1)
    if latest > batch.number:
        return CheckpointBehind(
            f"batch {latest} is decided in {root} and the checkpoint is at {batch.number}: another "
            "driver of this query wrote it while this one started, or the checkpoint was rolled "
            "back; make sure that only one driver runs and start again, or restore the newer "
            f"checkpoint; where the rows of batches {batch.number} to {latest} may be doubled, "
            "delete the folder"
        )
    found = look.of(batch.number)
    for each in found:
        if each.commits and each.offsets != batch.offsets:
            return OffsetsChanged(
                f"batch {batch.number} is in the store with other source offsets than the "
                f"checkpoint has now (hash {each.offsets}, now {batch.offsets}): skipping it would "
                f"lose rows, writing it would double rows; compare what the batch reads now with "
                f"the store, then delete its files in {root} to write it, or restore the "
                "checkpoint that wrote it"
            )
        if each.commits:
            return Skip(each)
    return Run(slot=1 + max((each.slot for each in found), default=-1))
