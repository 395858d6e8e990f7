"""Names of task attempts, and which of them are stale: what nobody will ever commit."""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from twophase.commit.naming import PREFIX, SinkName

_NAME: Final = re.compile(r"(\d{10})/(\d{12})/(\d+)/(\d+)")


def prefix_of(name: SinkName) -> str:
    """Return how the names of all attempts of a sink begin, or of one run of a batch job.

    "/" is in no id, so no sink's prefix is the beginning of another's name.
    """
    return f"{name.transactional_id}//"


def name_of(prefix: str) -> SinkName:
    """Return the sink whose attempts' names begin so."""
    sink_id, _, run_id = prefix.removeprefix(PREFIX).removesuffix("//").partition("/")
    return SinkName(sink_id, run_id or None)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of one task, unlike any other that ever was or will be.

    `epoch` is the driver's: every start of a sink has a higher one, also where its log was deleted
    in between, since it is no lower than the seconds of the clock. `attempt` is Spark's number of
    it, unique within the application; the number of tries would not be, since a stage that is
    submitted again starts to count anew. `given` is what the sink's `open` has returned.
    """

    prefix: str
    epoch: int
    batch: int
    task: int
    attempt: int
    given: Any = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The attempt's name, of letters, digits and _ . : + - /."""
        return f"{self.prefix}{self.epoch:010d}/{self.batch:012d}/{self.task}/{self.attempt}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One batch in the hands of one driver, as its tasks get it; `given` by the sink's `open`."""

    prefix: str
    epoch: int
    batch: int
    given: Any = field(default=None, compare=False, repr=False)

    def attempt(self, task: int, attempt: int) -> Attempt:
        """Return one attempt of a task; `attempt` is Spark's number of it."""
        return Attempt(self.prefix, self.epoch, self.batch, task, attempt, self.given)

    @property
    def stale(self) -> "Stale":
        """All of it, and what older drivers have of the batch: none of it is decided."""
        return Stale(self.prefix, self.epoch, self.batch, range(self.epoch, self.epoch + 1))


@dataclass(frozen=True, slots=True)
class Stale:
    """Attempts that lost: of batches up to `batch`, by drivers up to `epoch`; all of `ended` ones.

    A driver that was replaced without knowing it never touches what a newer one has prepared, nor
    one that started in vain what an older one, still at work, has prepared for a later batch.
    `ended` are the epochs of drivers of which nothing is both decided and not committed, nor ever
    will be: for a store whose names do not say the batch.
    """

    prefix: str
    epoch: int
    batch: int
    ended: range = range(0)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name.startswith(self.prefix):
            return False
        found = _NAME.fullmatch(name.removeprefix(self.prefix))
        if found is None:
            return False
        epoch, batch = int(found[1]), int(found[2])
        return epoch in self.ended or (epoch <= self.epoch and batch <= self.batch)
