"""What a sink promises about each row; `docs/guarantees.md` has the conditions."""

from enum import StrEnum

from twophase.errors import ConfigurationError
from twophase.options import shown


class Guarantee(StrEnum):
    """How often a row is written when something fails: once, at least once, or as it comes."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"

    @classmethod
    def parse(cls, text: str) -> "Guarantee":
        """Return the guarantee of that name, or refuse it with the names that there are."""
        name = text.strip().lower() if isinstance(text, str) else ""
        if name not in set(cls):
            raise ConfigurationError(
                f"guarantee={shown(str(text))} is not allowed; write one of {', '.join(cls)}",
                option="guarantee",
            )
        return cls(name)
