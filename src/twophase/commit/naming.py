"""Names that derive from a sink id, for ever: transactional id and marker group."""

import re
from dataclasses import dataclass

from twophase.errors import ConfigurationError

PREFIX = "twophase."
# Short enough that prefix, sink id and run id fit into Kafka's names with room to read them.
_LENGTH_MAX = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]*")


@dataclass(frozen=True, slots=True)
class SinkName:
    """A sink id, and the run id of a batch job; one transactional id and marker group for both."""

    sink_id: str
    run_id: str | None = None

    def __post_init__(self) -> None:
        check_name("sink_id", self.sink_id)
        if self.run_id is not None:
            check_name("run_id", self.run_id)

    @classmethod
    def read(cls, transactional_id: str) -> "SinkName | None":
        """Return whose batch-scope transactional id or marker group this is; None for any other."""
        if not transactional_id.startswith(PREFIX):
            return None
        sink_id, slash, run_id = transactional_id.removeprefix(PREFIX).partition("/")
        try:
            return cls(sink_id, run_id if slash else None)
        except ConfigurationError:
            return None

    def owns(self, transactional_id: str) -> bool:
        """Whether an id belongs to this sink: its own, one of a run of it or of its tasks."""
        own = self.transactional_id
        return transactional_id == own or transactional_id.startswith(f"{own}/")

    @property
    def transactional_id(self) -> str:
        """What fences every older writer of this sink, or of this run of it."""
        # "/" is in no id, so that no run of one sink has the name of another sink.
        return f"{PREFIX}{self.sink_id}" + (f"/{self.run_id}" if self.run_id is not None else "")

    @property
    def marker_group(self) -> str:
        """The consumer group that holds the marker."""
        return self.transactional_id


def check_name(what: str, value: object) -> None:
    """Refuse what is no name, and say what one is."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or len(value) > _LENGTH_MAX:
        raise ConfigurationError(
            f"{what} is {value!r}; allowed are 1 to {_LENGTH_MAX} letters, digits and _ . : + -, "
            "beginning with a letter or digit"
        )
