"""What a broker's log is made to say."""

import pytest

from twophase.embedded.failure import LogMark, explain, quote
from twophase.embedded.ports import PortTaken
from twophase.errors import SetupError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("java.io.IOException: No space left on device", r"is full \(\d+ bytes are free\)"),
        ("BindException: Address already in use", "another process took one of its ports"),
        ("2026-01-01T00:00:00,1 ERROR Kafka - no luck\n\tat x.y", "did not start: no luck; "),
        ("", "it wrote nothing to its log"),
    ],
)
def test_reason(text, message, tmp_path):
    """A full disk, a taken port and anything else each get one sentence."""
    log = tmp_path / "server.log"
    log.write_text(text)
    error = explain("Kafka", tmp_path, (LogMark(log, 0),))
    assert isinstance(error, SetupError)
    assert isinstance(error, PortTaken) == ("ports" in message)
    assert "\n" not in str(error)
    with pytest.raises(SetupError, match=message):
        raise error


def test_an_earlier_runs_words_are_not_quoted(tmp_path):
    """Only what was written since the mark counts; a rolled log is new as a whole."""
    log = tmp_path / "server.log"
    log.write_text("Address already in use\n")
    mark = LogMark.end_of(log)
    with log.open("a") as file:
        file.write("ERROR other\n")
    assert mark.text_since() == "ERROR other\n"
    log.write_text("short\n")
    assert mark.text_since() == "short\n"
    log.unlink()
    assert mark.text_since() == ""


def test_a_quote_is_one_bounded_line():
    """Stack frames are left out and a long line is cut."""
    said = quote("INFO fine\nFATAL first\n\tat frame\n\t... 3 more\nException " + "x" * 999)
    assert said.startswith("FATAL first / Exception xxx")
    assert len(said) == 300
