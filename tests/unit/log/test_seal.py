"""A sealed file is read back whole or refused by name."""

import json

import pytest

from twophase.errors import LogCorrupt, LogVersionUnsupported
from twophase.log.seal import seal, unseal

CONTENT = {"batch": 7, "rows": [1, 2, {"näme": None}], "ok": True}


def test_content_comes_back():
    """What was sealed is what is read."""
    assert unseal(seal(CONTENT), "there") == CONTENT


def test_every_cut_is_found():
    """A file that was cut short at any byte is refused, with its place."""
    data = seal(CONTENT)
    for length in range(len(data)):
        with pytest.raises(LogCorrupt, match="there is damaged"):
            unseal(data[:length], "there")


def test_every_flipped_bit_is_found():
    """Any one bit that is not as it was written is enough."""
    data = seal(CONTENT)
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            with pytest.raises((LogCorrupt, LogVersionUnsupported)):
                unseal(bytes(changed), "there")


@pytest.mark.parametrize("added", [b" ", b"\n", b"x", b"{}"])
def test_what_is_added_is_found(added):
    """In front and behind."""
    for data in (seal(CONTENT) + added, added + seal(CONTENT)):
        with pytest.raises(LogCorrupt):
            unseal(data, "there")


def test_a_newer_version_is_refused_by_name():
    """The message says which version was found and which can be read."""
    head, body = seal(CONTENT).split(b"\n", 1)
    header = json.loads(head) | {"format": 2}
    with pytest.raises(LogVersionUnsupported, match=r"there has format version 2.*reads up to 1"):
        unseal(json.dumps(header).encode() + b"\n" + body, "there")


def test_only_json_is_sealed():
    """A number that JSON does not have would not come back."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        seal({"a": float("nan")})
