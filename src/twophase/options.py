"""How an option's text becomes a typed value, and how a wrong one is told without its secrets.

The stores' own tables of options (`twophase.kafka.option_table`) are made of these parts.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

from twophase.errors import ConfigurationError

E = TypeVar("E", bound=StrEnum)

MASK = "***"
# What a name says of its value, as Spark's own spark.redaction.regex has it, and more of the kind.
# Java reads it too: what may be a secret is hidden by Spark.
HIDDEN_NAMES = r"secret|passw|token|credential|(?:access|account|api|encryption|private)[._ -]?key"

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

_SHOWN_CHARS_MAX = 80
_NAME = re.compile(r"[0-9A-Za-z._\-]{1,80}")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
# What a secret looks like when it was written under the wrong key.
_SECRET_LOOK = re.compile(r"-----BEGIN|LoginModule|passw|secret|token|:[^/\s]*@", re.IGNORECASE)


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A value that no repr, format or log shows; only `reveal` gives it away."""

    _value: str

    def reveal(self) -> str:
        """Return the text itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class Kind:
    """One type of value: what is allowed, in words, and how its text is read."""

    allowed: str
    read: Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Option:
    """One row of a table of options; the documentation is checked against the same row."""

    name: str
    field: str
    kind: Kind
    default: str | None
    meaning: str
    java: str | None = None
    secret: bool = False

    def parse(self, key: str, text: str) -> Any:
        """Return the typed value, or refuse naming key, value and what is allowed."""
        try:
            value = self.kind.read(text)
        except ValueError:
            # Without the cause: its text would hold the value, secret or not.
            refuse(f"{key}={self.shown(text)} is not allowed; write {self.kind.allowed}", key)
        return Secret(value) if self.secret else value

    def default_value(self) -> Any:
        """Return the default as a typed value; None where the option may stay unset."""
        return None if self.default is None else self.parse(self.name, self.default)

    def shown(self, text: str) -> str:
        """Return the text as an error may show it."""
        return MASK if self.secret else shown(text)


def refuse(message: str, key: str) -> NoReturn:
    """Raise the one error of a wrong option; the key is also in its ids."""
    raise ConfigurationError(message, option=key) from None


def shown(text: str) -> str:
    """Quote a value for an error: shortened, and masked when it looks like a secret."""
    if _SECRET_LOOK.search(text):
        return MASK
    return repr(text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…")


def shown_key(written: str) -> str:
    """Quote a name for an error, if it can be a name; what else it holds is nobody's business."""
    return repr(written) if _NAME.fullmatch(written) else MASK


def as_text(key: str, value: object) -> str:
    """Return a value as Java would read it; Python's own bool and int are welcome."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Secret):
        return value.reveal()
    refuse(f"{key} is of type {type(value).__name__}; write a string, an integer or a bool", key)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that the user most likely meant."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def one_of(kind: type[E], option: str, value: object) -> E:
    """Return the member of that name, in either case, or refuse it with all names."""
    name = value.strip().lower() if isinstance(value, str) else ""
    if name not in set(kind):
        allowed = ", ".join(kind)
        refuse(f"{option}={shown(str(value))} is not allowed; write one of {allowed}", option)
    return kind(name)


def integer(low: int, high: int, unit: str = "") -> Kind:
    """Allow a plain integer, as Java takes durations and sizes."""

    def read(text: str) -> int:
        if not _INTEGER.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError
        return int(text)

    what = f"a plain integer of {unit}" if unit else "an integer"
    bounds = f"{low} or more" if high in {INT_MAX, LONG_MAX} else f"{low} to {high}"
    return Kind(f"{what}, {bounds}", read)


def choice(values: Mapping[str, Any]) -> Kind:
    """Allow one of the given words, in either case, standing for the given value."""
    folded = {word.lower(): value for word, value in values.items()}

    def read(text: str) -> Any:
        if text.lower() not in folded:
            raise ValueError
        return folded[text.lower()]

    return Kind("one of " + ", ".join(word or "'' (empty)" for word in values), read)


def _not_empty(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError
    return text


def _path(text: str) -> str:
    # Inline PEM under the key of a path would be repeated by every error about the file.
    if not text or not text.isprintable() or "-----BEGIN" in text or "LoginModule" in text:
        raise ValueError
    return text


BOOLEAN = choice({"true": True, "false": False})
TEXT = Kind("a text that is not empty", _not_empty)
PATH = Kind("the path of a file", _path)
