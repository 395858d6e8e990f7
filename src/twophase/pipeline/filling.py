"""References filled into options and addresses; a secret that is written out is refused by name."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from twophase.errors import SetupError
from twophase.kafka.jaas import JaasError, parse_jaas
from twophase.kafka.option_table import OPTIONS, PREFIX
from twophase.options import HIDDEN_NAMES
from twophase.pipeline.mistakes import Where
from twophase.pipeline.reading import Reader, literal_secret, name_of
from twophase.pipeline.references import is_reference, names_secret, refers

_JAAS: Final = PREFIX + "sasl.jaas.config"
# What has a secret is said by the last part of a name: oauth.token.endpoint.uri has none.
_HAS_SECRET: Final = re.compile(rf"(?:{HIDDEN_NAMES})[^.]*$", re.IGNORECASE)
# Says whether a password is a delegation token.
_IS_DELEGATED: Final = "tokenauth"
_JAVA_OPTIONS: Final = "javaoptions"
_PROPERTY: Final = re.compile(r"""-D(?P<name>[^\s=]+)=["']?(?P<value>[^\s"']+)""")
# One way for each thing: these have keys, and what is here would go before --master.
_HAVE_KEYS: Final[Mapping[str, str]] = {
    "spark.master": "master beside conf",
    "spark.app.name": "name at the top of the file",
}


def fill_kafka(reader: Reader, given: Mapping[str, str], where: Where) -> dict[str, str]:
    """Return Kafka's options with their references filled in; without those that lead nowhere."""
    found = {}
    for name, raw in given.items():
        here = (*where, name)
        key = name.strip().lower()
        option = OPTIONS.get(key.removeprefix(PREFIX))
        if key == _JAAS:
            text = _jaas(reader, raw, here)
        elif (option is not None and option.secret) or names_secret(name):
            text = _whole(reader, raw, here)
        else:
            text = reader.fill(raw, here)
        if text is not None:
            found[name] = text
    return found


def fill_conf(reader: Reader, given: Mapping[str, str], where: Where) -> dict[str, str]:
    """Return Spark's settings with their references filled in; only what Spark hides may be one."""
    found = {}
    for name, raw in given.items():
        here = (*where, name)
        text: str | None = None
        if name.strip().lower() in _HAVE_KEYS:
            key = _HAVE_KEYS[name.strip().lower()]
            reader.mistakes.add(here, f"{name} has a key of its own: write {key}")
        elif names_secret(name):
            text = _whole(reader, raw, here)
        elif shown := list(_shown_secrets(name, raw)):
            for each in shown:
                reader.mistakes.add(here, each)
        elif refers(raw):
            reader.mistakes.add(
                here,
                f"{name} is a reference, and Spark shows this setting to everybody who sees its "
                "web page; allowed are references under names with secret, password or token",
            )
        else:
            text = raw
        if text is not None:
            found[name] = text
    return found


def _shown_secrets(name: str, raw: str) -> Iterator[str]:
    """Say which options of Java hold a secret: Spark shows them, so a reference is no way out."""
    for found in secret_properties(name, raw):
        yield (
            f"-D{found} in {name} holds a secret as it is, in a file that others read; leave it "
            "out: Java's options are seen by everybody on the machine"
        )


def secret_properties(name: str, raw: str) -> Iterator[str]:
    """Yield the properties in a setting of options of Java whose values are secrets as they are."""
    if name.strip().lower().endswith(_JAVA_OPTIONS):
        for found in _PROPERTY.finditer(raw):
            if _HAS_SECRET.search(found["name"]) and not is_reference(found["value"]):
                yield found["name"]


def fill_options(reader: Reader, given: Mapping[str, str], where: Where) -> dict[str, str]:
    """Return options of a reader of files with their references filled in."""
    filled = {
        name: _whole(reader, raw, (*where, name))
        if names_secret(name)
        else reader.fill(raw, (*where, name))
        for name, raw in given.items()
    }
    return {name: text for name, text in filled.items() if text is not None}


def fill_url(reader: Reader, raw: str, where: Where) -> str | None:
    """Return a database's address; what comes from references needs no %-signs in it."""
    try:
        from psycopg import ProgrammingError  # noqa: PLC0415 - an extra, not everybody has it
        from psycopg.conninfo import conninfo_to_dict, make_conninfo  # noqa: PLC0415
    except ImportError as error:
        raise SetupError(
            "psycopg is not installed; install twophase with its extra: postgres"
        ) from error
    if is_reference(raw):
        return reader.fill(raw, where)
    try:
        parts = conninfo_to_dict(raw)
    except ProgrammingError:
        # The sink says what an address is; this one may hold anything.
        return raw
    literal = _literal({name: str(value) for name, value in parts.items() if value})
    for name in literal:
        reader.mistakes.add(where, literal_secret(f"{name} in {name_of(where)}"))
    if literal:
        return raw
    filled = {name: reader.fill(str(value), where) for name, value in parts.items()}
    known = {name: value for name, value in filled.items() if value is not None}
    return make_conninfo("", **known) if len(known) == len(filled) else None


def _whole(reader: Reader, raw: str, where: Where) -> str | None:
    if raw and not is_reference(raw):
        reader.mistakes.add(where, literal_secret(str(where[-1])))
        # Only so that the rest is checked with it: the file is refused.
        return raw
    return reader.fill(raw, where)


def _jaas(reader: Reader, raw: str, where: Where) -> str | None:
    if is_reference(raw):
        return reader.fill(raw, where)
    try:
        literal = _literal(parse_jaas(raw).options)
    except JaasError:
        # What is wrong is told by the sink's own check, which shows nothing of it.
        literal = []
    for name in literal:
        reader.mistakes.add(where, literal_secret(f"{name} in {where[-1]}"))
    if literal:
        return raw
    return reader.fill(raw, where, escape=_quoted)


def _literal(parts: Mapping[str, str]) -> list[str]:
    """Return the names under which a secret stands as it is."""
    return [
        name
        for name, value in parts.items()
        if _HAS_SECRET.search(name) and name.lower() != _IS_DELEGATED and not is_reference(value)
    ]


def _quoted(value: str) -> str:
    """Escape a value as it must stand between double quotes in JAAS."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
