"""What is decided about one try of a batch: which committables count, or that none does."""

from dataclasses import asdict, dataclass
from typing import Any

from twophase.errors import LogCorrupt

Committable = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the winning attempt of one task has prepared; `name` is the attempt's."""

    task: int
    name: str
    rows: int
    committable: Committable


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about slot `slot` of a batch: commit all of `prepared`, or, if None, void.

    A void slot belongs to nobody: it is how a driver takes the batch away from an older one, which
    then cannot decide any more.
    """

    batch: int
    slot: int
    owner: str
    offsets: str
    epoch: int
    time_ms: int
    prepared: tuple[Prepared, ...] | None

    @property
    def commits(self) -> bool:
        """Whether the batch is decided to be in the store."""
        return self.prepared is not None

    @property
    def rows(self) -> int:
        """Rows of all committables."""
        return sum(each.rows for each in self.prepared or ())

    def to_content(self) -> dict[str, Any]:
        """Return the decision as JSON values."""
        return asdict(self)

    @classmethod
    def from_content(cls, content: dict[str, Any], place: str) -> "Decision":
        """Return the decision that a file holds."""
        try:
            found = content["prepared"]
            prepared = None if found is None else tuple(Prepared(**each) for each in found)
            return cls(**{**content, "prepared": prepared})
        except (TypeError, KeyError) as error:
            raise LogCorrupt(f"{place} holds no decision: {error}") from error
