"""YAML text to plain nodes with line and column, and nothing beyond data.

Anchors, aliases, tags and keys that come twice are refused: the first two make small files large,
tags make objects, and of two keys one would be ignored without a word. Scalars stay the text that
was written, so that `no` is a word and `010` keeps its zero; what a text means is the table's to
say.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from twophase.options import shown_key
from twophase.pipeline.mistakes import Mistakes, Place, Where

FILE_BYTES_MAX: Final = 1_000_000
_DEPTH_MAX: Final = 20
_MERGE: Final = "tag:yaml.org,2002:merge"
# Escapes such as \ud800 name them; no encoding has them, so no other program takes such a text.
_HALVES: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text as it was written; `plain` if it had no quotes, so that it may mean a number.

    `begins` is where its first character stands, None where its lines are not those of the file.
    """

    text: str
    plain: bool = False
    begins: Place | None = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and what they stand for; `keys` has the place of each key."""

    values: "dict[str, Node]"


@dataclass(frozen=True, slots=True)
class Listing:
    """Values in order."""

    items: "tuple[Node, ...]"


Node = Scalar | Mapping | Listing


def read_document(text: str, mistakes: Mistakes) -> Node | None:
    """Return the one document of a text; None, with the mistakes noted, where it cannot be read."""
    try:
        _check_events(text, mistakes)
        if mistakes.found:
            return None
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        mistakes.add_at(_place(mark) if mark else Place(1, 1), _syntax(error))
        return None
    except (yaml.YAMLError, ValueError, OverflowError):
        # A character that no text has; PyYAML tells its position in the stream only.
        mistakes.add_at(Place(1, 1), "the file holds a character that YAML does not allow")
        return None
    if root is None:
        mistakes.add_at(Place(1, 1), "the file is empty; `twophase run --help` shows an example")
        return None
    return _node(root, (), mistakes)


def _check_events(text: str, mistakes: Mistakes) -> None:
    """Look at the stream before anything is built from it."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        place = _place(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            mistakes.add_at(place, f"*{event.anchor} is an alias; write the value itself")
        elif isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            mistakes.add_at(place, f"&{event.anchor} is an anchor; leave it out")
        if getattr(event, "tag", None) not in {None, "!"}:
            mistakes.add_at(place, "there is a tag (!...); allowed are plain values only")
        if isinstance(event, yaml.ScalarEvent) and _HALVES.search(event.value):
            said = "there is half of a character (\\ud800 to \\udfff); write the character itself"
            mistakes.add_at(place, said)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEPTH_MAX:
            mistakes.add_at(place, f"there are more than {_DEPTH_MAX} levels; no pipeline has")
            return


def _node(node: Any, where: Where, mistakes: Mistakes) -> Node:
    mistakes.places.setdefault(where, _place(node.start_mark))
    if isinstance(node, yaml.ScalarNode):
        return Scalar(node.value, plain=node.style is None, begins=_begins(node))
    if isinstance(node, yaml.SequenceNode):
        return Listing(
            tuple(_node(each, (*where, at), mistakes) for at, each in enumerate(node.value))
        )
    return Mapping(dict(_pairs(node, where, mistakes)))


def _pairs(node: Any, where: Where, mistakes: Mistakes) -> Iterator[tuple[str, Node]]:
    seen: dict[str, Place] = {}
    for key, value in node.value:
        place = _place(key.start_mark)
        if not isinstance(key, yaml.ScalarNode):
            mistakes.add_at(place, "a key is a list or a section; allowed is a name")
            continue
        name = key.value
        if key.tag == _MERGE:
            said = "<< takes the keys of another section; write them here, one by one"
            mistakes.add_at(place, said)
            continue
        if name in seen:
            first = seen[name].line
            mistakes.add_at(place, f"{shown_key(name)} is here twice, first in line {first}")
            continue
        seen[name] = place
        # A mistake about a value is told where its key is, which is where people look.
        mistakes.places[*where, name] = place
        yield name, _node(value, (*where, name), mistakes)


def _begins(node: Any) -> Place | None:
    line, column = node.start_mark.line + 1, node.start_mark.column + 1
    if node.style != "|":
        quotes = int(node.style is not None)
        # Folded lines and escapes shift what is behind them.
        width = node.end_mark.index - node.start_mark.index - 2 * quotes
        one_line = node.start_mark.line == node.end_mark.line
        return Place(line, column + quotes) if one_line and width == len(node.value) else None
    # A block begins after the line of its sign, and its indentation is that of its first line.
    lines = node.start_mark.buffer.splitlines() if node.start_mark.buffer else []
    first = next((each for each in lines[line:] if each.strip()), None)
    return None if first is None else Place(line + 1, len(first) - len(first.lstrip()) + 1)


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1)


def _syntax(error: yaml.MarkedYAMLError) -> str:
    said = " ".join(str(part) for part in (error.context, error.problem) if part)
    return f"this is not YAML: {said}"
