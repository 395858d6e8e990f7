"""The marker: which batch of which owner a transaction holds, whole or not believed.

It is the metadata of a committed offset, which any tool can overwrite; so it carries a checksum of
itself and is refused when anything in it is not as this version writes it.
"""

import hashlib
import json
from dataclasses import asdict, dataclass

FORMAT_VERSION = 1
_FIELDS = ("v", "owner", "batch", "offsets", "rows", "bytes", "time_ms", "offset")


@dataclass(frozen=True, slots=True)
class Marker:
    """One committed batch.

    `owner` is the query's id, or "run" for a batch job, whose name is in the group already.
    `offsets` is the hash of the checkpoint's `offsets/<batch>`: another hash is another set of rows
    under the same number. `offset` is the committed offset that the marker lies at.
    """

    owner: str
    batch: int
    offsets: str
    rows: int
    bytes: int
    time_ms: int
    offset: int

    def to_text(self) -> str:
        """Return the JSON that goes into the offset's metadata."""
        content = {"v": FORMAT_VERSION, **asdict(self)}
        return json.dumps(content | {"sum": _checksum(content)}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that is no marker, where a marker should be; `why` says what is wrong with it."""

    why: str


def offsets_hash(content: bytes) -> str:
    """Return what a marker keeps of the checkpoint's `offsets/<batch>`."""
    return hashlib.sha256(content).hexdigest()[:32]


def read_marker(text: str, offset: int) -> Marker | Unreadable:
    """Return the marker that lies at a committed offset, or why it cannot be believed."""
    try:
        content = json.loads(text)
    except ValueError:
        return Unreadable(f"it is not JSON: {text[:80]!r}")
    why = _fault(content)
    if why is not None:
        return Unreadable(why)
    marker = Marker(**{name: content[name] for name in _FIELDS if name != "v"})
    if marker.offset != offset:
        return Unreadable(f"it was written for offset {marker.offset} and lies at {offset}")
    return marker


def _fault(content: object) -> str | None:
    if not isinstance(content, dict):
        return f"it is not a JSON object: {content!r:.80}"
    if content.get("v") != FORMAT_VERSION:
        return f"its format version is {content.get('v')!r}, this one reads {FORMAT_VERSION}"
    if set(content) != {*_FIELDS, "sum"}:
        return f"its fields are {sorted(content)}"
    if content["sum"] != _checksum({name: content[name] for name in _FIELDS}):
        return "its checksum does not fit its content"
    return None


def _checksum(content: dict[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
