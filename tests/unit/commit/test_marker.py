"""The marker: whole, or not believed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twophase.commit.marker import FORMAT_VERSION, Marker, Unreadable, read_marker

MARKER = Marker("0d0e-query", 41, "ab12", 1_000, 65_000, 1_800_000_000_000, 512)
LIMIT_BYTES = 4_096

markers = st.builds(
    Marker,
    owner=st.text(max_size=100),
    batch=st.integers(0, 2**63),
    offsets=st.text("0123456789abcdef", max_size=64),
    rows=st.integers(0, 2**63),
    bytes=st.integers(0, 2**63),
    time_ms=st.integers(0, 2**63),
    offset=st.integers(0, 2**63),
)


@given(markers)
def test_what_is_written_is_read(marker):
    """Every marker comes back as it was, and fits into the broker's limit."""
    text = marker.to_text()
    assert read_marker(text, marker.offset) == marker
    assert len(text.encode()) <= LIMIT_BYTES


@given(st.text())
def test_any_other_text_is_not_believed(text):
    """Whatever a tool may have written there, it is no marker."""
    assert isinstance(read_marker(text, 0), Unreadable)


@given(st.data())
def test_every_changed_character_is_seen(data):
    """One character other than it was: not believed, or the very same content."""
    text = MARKER.to_text()
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda c: c != text[at]))
    changed = text[:at] + other + text[at + 1 :]
    assert isinstance(read_marker(changed, MARKER.offset), Unreadable)


@pytest.mark.parametrize("length", range(len(MARKER.to_text())))
def test_every_truncation_is_seen(length):
    """Cut short anywhere, it is not believed."""
    assert isinstance(read_marker(MARKER.to_text()[:length], MARKER.offset), Unreadable)


def test_a_marker_that_was_moved_is_not_believed():
    """A tool that resets the group's offset keeps the metadata; the offset tells."""
    found = read_marker(MARKER.to_text(), 511)
    assert isinstance(found, Unreadable)
    assert "offset 512 and lies at 511" in found.why


def test_a_newer_format_is_refused_by_name():
    """A marker of a later version says so."""
    content = json.loads(MARKER.to_text()) | {"v": FORMAT_VERSION + 1}
    found = read_marker(json.dumps(content), MARKER.offset)
    assert isinstance(found, Unreadable)
    assert "format version is 2" in found.why
