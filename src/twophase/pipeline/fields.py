"""The small language of the table: what a key of the file may hold.

Each type says what is allowed in words, for people, and as a JSON schema, for editors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from twophase.options import Kind

_SCALARS: Final = ("string", "number", "boolean")
ANY_TEXT: Final[Mapping[str, Any]] = {"type": [*_SCALARS]}
_REFERENCE: Final[Mapping[str, Any]] = {"type": "string", "pattern": r"\$\{(env|file):.+\}"}


@dataclass(frozen=True, slots=True)
class Text:
    """One value; `schema` is what an editor is told of it."""

    kind: Kind
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})

    @property
    def allowed(self) -> str:
        """What may be written, in words."""
        return self.kind.allowed


@dataclass(frozen=True, slots=True)
class TextList:
    """One text, or a list of them."""

    allowed: str = "a text, or a list of texts"


@dataclass(frozen=True, slots=True)
class Free:
    """Names of the user's own choice, each with one value: `known` are those to complete."""

    allowed: str
    known: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Values:
    """Names of the user's own choice, each with any values: texts, numbers, lists, sections."""

    allowed: str = "names and values"


@dataclass(frozen=True, slots=True)
class Section:
    """Keys that are known."""

    fields: "tuple[Field, ...]"
    allowed: str = "a section"

    def names(self) -> list[str]:
        """Return every key."""
        return [each.name for each in self.fields]


@dataclass(frozen=True, slots=True)
class OneOf:
    """A section with one key, which says what kind of section lies under it."""

    kinds: Mapping[str, Section]

    @property
    def allowed(self) -> str:
        """What may be written, in words."""
        return f"one of {', '.join(self.kinds)}"


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of sections of one kind, with at least so many."""

    item: "Section | OneOf"
    least: int = 0

    @property
    def allowed(self) -> str:
        """What may be written, in words."""
        return "a list" + (f" of {self.least} or more" if self.least else "")


Type = Text | TextList | Free | Values | Section | OneOf | ListOf


@dataclass(frozen=True, slots=True)
class Field:
    """One key: what it may hold and what it means; `default` is text, as a user would write it."""

    name: str
    type: Type
    meaning: str
    required: bool = False
    default: str | None = None
    # A path that is relative is taken from the file's folder, so that every start means the same.
    path: bool = False


def schema_of(kind: Type) -> dict[str, Any]:
    """Return a type as JSON schema."""
    if isinstance(kind, Text | TextList | Free | Values):
        return _leaf(kind)
    if isinstance(kind, ListOf):
        return {"type": "array", "items": schema_of(kind.item), "minItems": kind.least}
    if isinstance(kind, OneOf):
        sections = {name: schema_of(each) for name, each in kind.kinds.items()}
        one = {"minProperties": 1, "maxProperties": 1, "additionalProperties": False}
        return {"type": "object", "properties": sections, **one}
    return {
        "type": "object",
        "properties": {each.name: _described(each) for each in kind.fields},
        "required": [each.name for each in kind.fields if each.required],
        "additionalProperties": False,
    }


def _leaf(kind: Text | TextList | Free | Values) -> dict[str, Any]:
    if isinstance(kind, Text):
        schema = dict(kind.schema)
        # An editor shall take a reference wherever the check takes one.
        return schema if schema == {"type": "string"} else {"anyOf": [schema, dict(_REFERENCE)]}
    if isinstance(kind, TextList):
        return {"anyOf": [ANY_TEXT, {"type": "array", "items": ANY_TEXT}]}
    if isinstance(kind, Free):
        known = {name: {**ANY_TEXT, "description": said} for name, said in kind.known.items()}
        return {"type": "object", "properties": known, "additionalProperties": ANY_TEXT}
    return {"type": "object"}


def _described(each: Field) -> dict[str, Any]:
    told = {**schema_of(each.type), "description": each.meaning}
    return told if each.default is None else {**told, "default": each.default}
