"""What the machine asks the driver to do, in the imperative; one at a time."""

from dataclasses import dataclass
from enum import Enum

from twophase.commit.summary import Summary


@dataclass(frozen=True, slots=True)
class PeekMarker:
    """Read the marker as it was committed last, whatever is open; wait for nothing, change nothing.

    It may be older than what is true, so it can refuse a batch and never say that it is written.
    """


@dataclass(frozen=True, slots=True)
class DescribeLast:
    """Ask how the id's last transaction ended, and change nothing."""


@dataclass(frozen=True, slots=True)
class Own:
    """Take the id from whoever has it, and end what is open."""


@dataclass(frozen=True, slots=True)
class Reacquire:
    """Take a fresh identity as the owner of this one; never from a newer owner."""

    identity: object


@dataclass(frozen=True, slots=True)
class ReadMarker:
    """Read the marker, waiting for a transaction that is being ended."""


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Read the marker as after the commit, to see whether it is there."""


@dataclass(frozen=True, slots=True)
class ExecutePlan:
    """Execute the batch's plan without writing, because state stores advance only by that."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Compute the blocks, materialise them and check that they are whole; nothing is sent."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Send:
    """Send the blocks, each output partition from one sender, until all are acknowledged."""

    identity: object
    summary: Summary


@dataclass(frozen=True, slots=True)
class WriteMarker:
    """Put the marker with these values into the transaction; time and offset are the driver's."""

    identity: object
    owner: str
    batch: int
    offsets: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Commit:
    """Ask the store once to make the transaction visible."""

    identity: object


class Outcome(Enum):
    """How the batch came to be in the topic exactly once."""

    COMMITTED = "committed"
    SKIPPED = "skipped"
    COMMITTED_BEFORE = "committed-before"


@dataclass(frozen=True, slots=True)
class Finished:
    """Return to Spark: the batch is in the topic.

    SKIPPED: an earlier run wrote it. COMMITTED_BEFORE: this call did, by a commit that was not
    answered.
    """

    outcome: Outcome
    attempts: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Raise:
    """Raise the error to Spark: the batch is not known to be in the topic."""

    error: BaseException


Effect = (
    PeekMarker
    | DescribeLast
    | Own
    | Reacquire
    | ReadMarker
    | ReadBack
    | ExecutePlan
    | Prepare
    | Send
    | WriteMarker
    | Commit
    | Finished
    | Raise
)
