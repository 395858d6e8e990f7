"""Read a Java properties file, such as Kafka's own tools take with --command-config."""

import re
from collections.abc import Iterator

_COMMENT = ("#", "!")
_KEY = re.compile(r"(?P<key>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u(?P<code>[0-9A-Fa-f]{4})|(?P<letter>.))", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    """Return the keys and values as `java.util.Properties` reads them; the last of a key wins.

    Raises ValueError where Java would refuse, without a word of the content.
    """
    found = {}
    for line in _logical_lines(text):
        parts = _KEY.fullmatch(line)
        if parts is not None and parts["key"]:
            found[_unescaped(parts["key"])] = _unescaped(parts["value"])
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Join lines that end with an odd number of backslashes; leave out blanks and comments."""
    joined = ""
    for line in re.split(r"\r\n|\r|\n", text):
        piece = line.lstrip(" \t\f")
        if not joined and (not piece or piece.startswith(_COMMENT)):
            continue
        if (len(piece) - len(piece.rstrip("\\"))) % 2:
            joined += piece[:-1]
            continue
        yield joined + piece
        joined = ""
    if joined:
        yield joined


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found["code"] is not None:
            return chr(int(found["code"], 16))
        if found["letter"] == "u":
            raise ValueError("a \\u is not followed by four hexadecimal digits")
        return _LETTERS.get(found["letter"], found["letter"])

    return _ESCAPE.sub(plain, text)
