"""What a sink promises about each row; `docs/guarantees.md` has the conditions."""

from enum import StrEnum

from twophase.options import one_of


class Guarantee(StrEnum):
    """How often a row is written when something fails: once, at least once, or as it comes."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"

    @classmethod
    def parse(cls, text: str) -> "Guarantee":
        """Return the guarantee of that name, or refuse it with the names that there are."""
        return one_of(cls, "guarantee", text)
