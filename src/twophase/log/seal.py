"""JSON that is read back whole or not at all.

A sealed file is two lines: a header with the format's version, the length and the SHA-256 of the
content, and the content. Only bytes that this module would write are taken: whatever is cut off,
added or changed, in the header too, is found.
"""

import hashlib
import json
from typing import Any, Final

from twophase.errors import LogCorrupt, LogVersionUnsupported

FORMAT_VERSION: Final = 1


def seal(content: dict[str, Any]) -> bytes:
    """Return the bytes of a file that holds this content."""
    body = _json(content)
    return _header(body) + b"\n" + body + b"\n"


def unseal(data: bytes, place: str) -> dict[str, Any]:
    """Return the content; `LogCorrupt` names the place and what is wrong with it."""
    head, _, rest = data.partition(b"\n")
    header = _parsed(head, place, "its header")
    version = header.get("format")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise LogVersionUnsupported(
            f"{place} has format version {version}; this version of twophase reads up to "
            f"{FORMAT_VERSION}; run the version that wrote it, or a newer one"
        )
    body = rest[:-1]
    if head != _header(body) or rest[-1:] != b"\n":
        raise _corrupt(place, f"{len(data)} bytes that do not match their length and checksum")
    return _parsed(body, place, "its content")


def _header(body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return _json({"format": FORMAT_VERSION, "length": len(body), "sha256": digest})


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


def _parsed(text: bytes, place: str, what: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _corrupt(place, f"{what} is no JSON object: {text[:60]!r}")
    return found


def _corrupt(place: str, found: str) -> LogCorrupt:
    return LogCorrupt(
        f"{place} is damaged ({found}); nothing was written or aborted; put the file back from a "
        "copy, or find out in the store what became of the batch before you delete it"
    )
