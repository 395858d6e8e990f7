"""The options that a Kafka source and all Kafka sinks of a file share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twophase.kafka.option_table import OPTIONS, PREFIX
from twophase.options import nearest, shown_key
from twophase.pipeline.filling import fill_kafka
from twophase.pipeline.mistakes import Where
from twophase.pipeline.reading import Reader
from twophase.pipeline.source_options import SHARED


@dataclass(frozen=True, slots=True)
class Shared:
    """The options, filled; `absent` are those that were written, and are wrong already."""

    options: Mapping[str, str]
    absent: frozenset[str]


def read_shared(reader: Reader, given: Mapping[str, str]) -> Shared:
    """Return the options under the names that Spark and the sinks have for them."""
    good = {}
    for name, text in once(reader, given, ("kafka",)).items():
        key = name.strip().lower()
        if key in SHARED:
            good[name] = text
        elif key.startswith(PREFIX) and key.removeprefix(PREFIX) in OPTIONS:
            said = f"{key} means nothing to a source; write it under the options of a sink"
            reader.mistakes.add(("kafka", name), said)
        else:
            reader.mistakes.add(("kafka", name), unknown_option(name, SHARED))
    filled = fill_kafka(reader, good, ("kafka",))
    absent = frozenset(name.strip().lower() for name in set(given) - set(filled))
    return Shared({name.strip().lower(): text for name, text in filled.items()}, absent)


def once(reader: Reader, given: Mapping[str, str], where: Where) -> dict[str, str]:
    """Return the options without those whose name is there before, in different case."""
    found: dict[str, str] = {}
    seen: set[str] = set()
    for name, text in given.items():
        key = name.strip().lower()
        if key in seen:
            said = f"{shown_key(name)} is given twice, in different case; keep one"
            reader.mistakes.add((*where, name), said)
        else:
            seen.add(key)
            found[name] = text
    return found


def unknown_option(name: str, known: Iterable[str]) -> str:
    """Return what is said of a name that no option has."""
    guess = nearest(name.strip(), known)
    hint = f"did you mean {guess}?" if guess else "see docs/pipelines.md for all"
    return f"{shown_key(name)} is no option here; {hint}"
