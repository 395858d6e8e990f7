"""`${env:NAME}` and `${file:PATH}`: the only way for a secret into a pipeline."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from twophase.options import HIDDEN_NAMES

FORMS: Final = "${env:NAME} or ${file:PATH}"
_REFERENCE: Final = re.compile(r"\$\{(?P<kind>[A-Za-z]*):?(?P<name>[^}]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_BYTES_MAX: Final = 100_000
# Shorter ones would hide half of every text that holds them.
_HIDDEN_CHARS_MIN: Final = 4
_SECRET_NAME: Final = re.compile(HIDDEN_NAMES, re.IGNORECASE)


class BadReference(ValueError):
    """A reference that leads nowhere; the message names it and holds nothing of any value."""


class References:
    """Puts values in the place of references, and remembers them so that they can be hidden."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._values: set[str] = set()

    def fill(self, text: str, escape: Callable[[str], str] = str) -> str:
        """Return the text with every reference replaced by what it stands for."""
        return _REFERENCE.sub(lambda found: escape(self._value(found)), text)

    def hide(self, text: str) -> str:
        """Return a text without the values that came from references."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, "***")
        return text

    def _value(self, found: re.Match[str]) -> str:
        kind, name = found["kind"], found["name"].strip()
        if kind == "env":
            value = self._from_environment(name)
        elif kind == "file":
            value = self._from_file(name)
        else:
            raise BadReference(f"a reference is neither of {FORMS}")
        for part in (value, *value.splitlines()):
            if len(part) >= _HIDDEN_CHARS_MIN:
                self._values.add(part)
        return value

    @staticmethod
    def _from_environment(name: str) -> str:
        if not _NAME.fullmatch(name):
            raise BadReference("a reference ${env:...} holds no name of an environment variable")
        value = os.environ.get(name)
        if not value:
            what = "is not set" if value is None else "is empty"
            raise BadReference(f"the environment variable {name} {what}")
        return value

    def _from_file(self, name: str) -> str:
        if not name or not name.isprintable():
            raise BadReference("a reference ${file:...} holds no path")
        path = self._folder / name
        try:
            with path.open("rb") as file:
                content = file.read(_SECRET_BYTES_MAX + 1)
        except OSError as error:
            raise BadReference(f"the file {path} cannot be read: {error.strerror}") from None
        if len(content) > _SECRET_BYTES_MAX:
            raise BadReference(f"the file {path} has more than {_SECRET_BYTES_MAX} bytes")
        try:
            # An editor's last newline is not part of a password.
            value = content.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise BadReference(f"the file {path} is not text in UTF-8") from None
        if not value:
            raise BadReference(f"the file {path} is empty")
        return value


def refers(text: str) -> bool:
    """Whether a text holds a reference."""
    return _REFERENCE.search(text) is not None


def is_reference(text: str) -> bool:
    """Whether a text is nothing but one reference."""
    return _REFERENCE.fullmatch(text.strip()) is not None


def names_secret(name: str) -> bool:
    """Whether a name says that its value is a secret."""
    return _SECRET_NAME.search(name) is not None
