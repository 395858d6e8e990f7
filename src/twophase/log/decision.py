"""What is decided about one try of a batch: which committables count, or that none does."""

from dataclasses import asdict, dataclass, field
from typing import Any

from twophase.errors import LogCorrupt

Committable = dict[str, Any]
# Under this key a committable may say how many of its rows the sink has put aside.
REJECTED = "rejected_rows"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the winning attempt of one task has prepared; `name` is the attempt's.

    `bytes` is for the record of the call that wrote them, and not in the log.
    """

    task: int
    name: str
    rows: int
    committable: Committable
    bytes: int = field(default=0, compare=False)


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

    @property
    def bytes(self) -> int:
        """Bytes of all committables, where this process has decided; 0 from the log."""
        return sum(each.bytes for each in self.prepared or ())

    @property
    def rejected_rows(self) -> int:
        """Those of them that sinks have put aside, as far as their committables say so."""
        found = (each.committable.get(REJECTED) for each in self.prepared or ())
        return sum(count for count in found if isinstance(count, int))

    def to_content(self) -> dict[str, Any]:
        """Return the decision as JSON values."""
        content = asdict(self)
        for each in content["prepared"] or ():
            del each["bytes"]
        return content

    @classmethod
    def from_content(cls, content: dict[str, Any], place: str) -> "Decision":
        """Return the decision that a file holds."""
        try:
            found = content["prepared"]
            prepared = None if found is None else tuple(Prepared(**each) for each in found)
            return cls(**{**content, "prepared": prepared})
        except (TypeError, KeyError) as error:
            raise LogCorrupt(f"{place} holds no decision: {error}") from error
