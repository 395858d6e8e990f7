"""Names of task attempts, and which of them are stale: what nobody will ever commit."""

import re
from dataclasses import dataclass
from typing import Final

from twophase.commit.naming import SinkName

_NAME: Final = re.compile(r"(\d{10})/(\d{12})/(\d+)/(\d+)")


def prefix_of(name: SinkName) -> str:
    """Return how the names of all attempts of a sink begin, or of one run of a batch job.

    "/" is in no id, so no sink's prefix is the beginning of another's name.
    """
    return f"{name.transactional_id}//"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of one task, unlike any other that ever was or will be.

    `epoch` is the driver's: every start of a sink has a higher one, also where its log was deleted
    in between, since it is no lower than the seconds of the clock. `attempt` is Spark's number of
    it, unique within the application; the number of tries would not be, since a stage that is
    submitted again starts to count anew.
    """

    prefix: str
    epoch: int
    batch: int
    task: int
    attempt: int

    @property
    def name(self) -> str:
        """The attempt's name, of letters, digits and _ . : + - /."""
        return f"{self.prefix}{self.epoch:010d}/{self.batch:012d}/{self.task}/{self.attempt}"


@dataclass(frozen=True, slots=True)
class Stale:
    """Attempts that lost: of batches up to `batch`, by drivers up to `epoch`.

    A driver that was replaced without knowing it never touches what a newer one has prepared, nor
    one that started in vain what an older one, still at work, has prepared for a later batch.
    """

    prefix: str
    epoch: int
    batch: int

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name.startswith(self.prefix):
            return False
        found = _NAME.fullmatch(name.removeprefix(self.prefix))
        if found is None:
            return False
        return int(found[1]) <= self.epoch and int(found[2]) <= self.batch
