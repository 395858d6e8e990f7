"""Nodes against the table: typed values, and every mistake on the way."""

import os.path
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twophase.errors import ConfigurationError
from twophase.options import MASK, nearest, shown, shown_key
from twophase.pipeline.document import Listing, Mapping, Node, Scalar
from twophase.pipeline.fields import (
    Field,
    Free,
    ListOf,
    OneOf,
    Section,
    Text,
    TextList,
    Type,
    Values,
)
from twophase.pipeline.mistakes import Mistakes, Where, said_of
from twophase.pipeline.references import BadReference, References, names_secret, refers

if TYPE_CHECKING:
    from collections.abc import Callable

_WORDS: Final = {Scalar: "a text", Listing: "a list", Mapping: "a section"}
_EMPTY: Final = {"", "~", "null"}
_INTEGER: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,18})")
_FLOAT: Final = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Has a scheme: s3a://..., hdfs://..., file:///...
_WITH_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(slots=True)
class Reader:
    """Reads one file; `hidden` is where references were, `raw` how lines of a text lie there."""

    mistakes: Mistakes
    references: References
    folder: Path
    hidden: set[Where] = field(default_factory=set)
    raw: dict[Where, Scalar] = field(default_factory=dict)

    def read(self, kind: Type, node: Node, where: Where) -> Any:
        """Return the value of a node; None where it is wrong, which is noted."""
        readers: dict[type, Callable[..., Any]] = {
            Section: self._section,
            OneOf: self._one_of,
            ListOf: self._list,
            TextList: self._texts,
            Text: self._text,
            Free: self._free,
            Values: self._values,
        }
        return readers[type(kind)](kind, node, where)

    def fill(self, text: str, where: Where, **how: Any) -> str | None:
        """Return a text with its references filled in; None where one leads nowhere."""
        if refers(text):
            if _shown_by_spark(where):
                said = "holds a reference, and Spark shows it in plans and logs; write it out"
                self.mistakes.add(where, f"{_name(where)} {said}")
                return None
            self.hidden.add(where)
        try:
            return self.references.fill(text, **how)
        except BadReference as error:
            self.mistakes.add(where, f"{_name(where)}: {error}")
            return None

    def _section(self, kind: Section, node: Node, where: Where) -> dict[str, Any] | None:
        mapping = self._of(node, Mapping, kind.allowed, where)
        if mapping is None:
            return None
        names = kind.names()
        for name in mapping.values:
            if name not in names:
                self._unknown((*where, name), names)
        return {each.name: self._field(each, mapping, where) for each in kind.fields}

    def _field(self, each: Field, mapping: Mapping, where: Where) -> Any:
        here = (*where, each.name)
        if each.name not in mapping.values:
            if each.required:
                self.mistakes.add(
                    where, f"{_name(here)} is missing ({each.meaning}); write {each.type.allowed}"
                )
            return self._default(each)
        found = self.read(each.type, mapping.values[each.name], here)
        return self._located(found) if each.path and isinstance(found, str) else found

    def _default(self, each: Field) -> Any:
        if each.default is None or not isinstance(each.type, Text):
            return None
        return each.type.kind.read(each.default)

    def _located(self, path: str) -> str:
        return path if _WITH_SCHEME.match(path) else os.path.normpath(self.folder / path)

    def _one_of(self, kind: OneOf, node: Node, where: Where) -> tuple[str, Any] | None:
        mapping = self._of(node, Mapping, kind.allowed, where)
        if mapping is None:
            return None
        known = [name for name in mapping.values if name in kind.kinds]
        for name in mapping.values:
            if name not in kind.kinds:
                self._unknown((*where, name), list(kind.kinds))
        for name in known[1:]:
            self.mistakes.add((*where, name), f"{name} is beside {known[0]}; keep one of them")
        if not mapping.values:
            self.mistakes.add(where, f"{_name(where)} is empty; write {kind.allowed}")
        if not known:
            return None
        return known[0], self.read(
            kind.kinds[known[0]], mapping.values[known[0]], (*where, known[0])
        )

    def _list(self, kind: ListOf, node: Node, where: Where) -> list[Any]:
        found = self._of(node, Listing, kind.allowed, where)
        if found is None:
            return []
        if len(found.items) < kind.least:
            self.mistakes.add(where, f"{_name(where)} is empty; write {kind.allowed}")
        return [self.read(kind.item, each, (*where, at)) for at, each in enumerate(found.items)]

    def _texts(self, kind: TextList, node: Node, where: Where) -> tuple[str, ...]:
        if isinstance(node, Scalar):
            node = Listing((node,))
        found = self._of(node, Listing, kind.allowed, where)
        texts = []
        for each in found.items if found else ():
            scalar = self._of(each, Scalar, kind.allowed, where)
            text = self.fill(scalar.text, where) if scalar else None
            if text is not None and not text.strip():
                said = f"{_name(where)} holds an empty text; write the name, or leave it out"
                self.mistakes.add(where, said)
            texts += [text] if text else []
        return tuple(texts)

    def _text(self, kind: Text, node: Node, where: Where) -> Any:
        scalar = self._of(node, Scalar, kind.allowed, where)
        if scalar is None:
            return None
        self.raw[where] = scalar
        # At its front a text keeps its blanks: places in a query are counted from there.
        text = self.fill(scalar.text.rstrip(), where)
        if text is None:
            return None
        try:
            return kind.kind.read(text)
        except ConfigurationError as error:
            said = said_of(error)
        except ValueError:
            seen = MASK if where in self.hidden else shown(text)
            said = f"{_name(where)} is {seen}; write {kind.allowed}"
        self.mistakes.add(where, said)
        return None

    def _free(self, kind: Free, node: Node, where: Where) -> dict[str, str]:
        """Return texts as they were written: what a reference in one means depends on its name."""
        mapping = self._of(node, Mapping, kind.allowed, where)
        found = {}
        for name, value in mapping.values.items() if mapping else ():
            scalar = self._of(value, Scalar, "a text, a number or true or false", (*where, name))
            if scalar is not None:
                found[name] = scalar.text.strip()
        return found

    def _values(self, kind: Values, node: Node, where: Where) -> Any:
        mapping = self._of(node, Mapping, kind.allowed, where)
        return None if mapping is None else self._plain(mapping, where)

    def _plain(self, node: Node, where: Where) -> Any:
        """Return a value as Python has it: text, number, boolean, None, list or dict."""
        if isinstance(node, Mapping):
            return {name: self._plain(each, (*where, name)) for name, each in node.values.items()}
        if isinstance(node, Listing):
            return [self._plain(each, (*where, at)) for at, each in enumerate(node.items)]
        if not refers(node.text) and node.text and names_secret(str(where[-1])):
            self.mistakes.add(where, literal_secret(_name(where)))
            return None
        text = self.fill(node.text, where)
        return text if text is None or not node.plain or where in self.hidden else _typed(text)

    def _of(self, node: Node, kind: type[Any], allowed: str, where: Where) -> Any:
        """Return the node if it is of this kind."""
        empty = isinstance(node, Scalar) and node.plain and node.text in _EMPTY
        if isinstance(node, kind) and not empty:
            return node
        found = "empty" if empty else _WORDS[type(node)]
        self.mistakes.add(where, f"{_name(where)} is {found}; write {allowed}")
        return None

    def _unknown(self, where: Where, known: list[str]) -> None:
        name = str(where[-1])
        guess = nearest(name.lower(), known)
        hint = f"did you mean {guess}? " if guess else ""
        place = f" of {_name(where[:-1])}" if len(where) > 1 else ""
        self.mistakes.add(
            where, f"{shown_key(name)} is no key{place}; {hint}allowed are {', '.join(known)}"
        )


def literal_secret(name: str) -> str:
    """Return what is said of a secret that is written into the file."""
    return (
        f"{name} holds a secret as it is, in a file that others read; write a reference: "
        "${env:NAME} takes it from the environment, ${file:PATH} from a file"
    )


def name_of(where: Where) -> str:
    """Return a value's name as a person would say it: sinks[0].kafka.topic."""
    return _name(where)


def _name(where: Where) -> str:
    said = ""
    for part in where:
        if isinstance(part, int):
            said += f"[{part}]"
        else:
            said += ("." if said else "") + part
    return said or "the file"


def _typed(text: str) -> Any:
    words = {"true": True, "false": False, "null": None, "~": None, "": None}
    if text.lower() in words:
        return words[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _shown_by_spark(where: Where) -> bool:
    """Whether the text goes into query plans, the log and the event log."""
    return where == ("name",) or (where[-1] == "sql" and "arguments" not in where)
