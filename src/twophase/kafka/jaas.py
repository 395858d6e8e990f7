"""Read `sasl.jaas.config` as Java reads it: one login module, a flag, options, a semicolon.

The grammar is that of Java's StreamTokenizer, so that a text which Java accepts means the same
here. What goes wrong is told by position and never by content: the text holds a password.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})
_SYNTAX = re.compile(
    r"""
      (?P<space>\s+|//[^\r\n]*|/\*.*?\*/)
    | (?P<word>[\w$.\-]+)
    | (?P<sign>[=;])
    | "(?P<double>(?:[^"\\\r\n]|\\[^\r\n])*)"
    | '(?P<single>(?:[^'\\\r\n]|\\[^\r\n])*)'
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)")
_CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """The text is not a login module; the message holds nothing of it but a position."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The one login module of a JAAS text; options stay out of the repr."""

    name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def simple_name(self) -> str:
        """The class without its package, which shaded clients change."""
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    sign: bool
    at: int


def parse_jaas(text: str) -> LoginModule:
    """Return the login module that the text names; raise JaasError where Java would refuse."""
    tokens = [*_tokens(text), _Token("", sign=True, at=len(text))]
    names = [token for token in tokens[:2] if not token.sign]
    if len(names) != 2 or names[1].text.lower() not in _FLAGS:  # noqa: PLR2004
        raise JaasError("it must begin with a login module's class and the word 'required'")
    options: dict[str, str] = {}
    rest = tokens[2:]
    while len(rest) > 3 and not rest[0].sign:  # noqa: PLR2004
        key, equals, value, *rest = rest
        if not (equals.sign and equals.text == "=") or value.sign:
            raise JaasError(f"an option=value pair is expected at character {key.at}")
        options[key.text] = value.text
    if rest[0].text != ";" or not rest[0].sign:
        raise JaasError(f"a pair option=\"value\" or the final ';' is missing at {rest[0].at}")
    if len(rest) > 2:  # noqa: PLR2004
        raise JaasError(f"one login module is allowed, a second begins at character {rest[1].at}")
    return LoginModule(names[0].text, options)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _SYNTAX.match(text, at)
        if found is None:
            raise JaasError(f"character {at} must stand in quotes, or a quote is not closed")
        if found["word"] is not None:
            yield _Token(found["word"], sign=False, at=at)
        elif found["sign"] is not None:
            yield _Token(found["sign"], sign=True, at=at)
        elif found["space"] is None:
            quoted = found["double"] if found["double"] is not None else found["single"]
            yield _Token(_ESCAPE.sub(_unescape, quoted), sign=False, at=at)
        at = found.end()


def _unescape(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _CONTROL.get(code, code)
