"""What a broker's log says about why it did not start, in one sentence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twophase.embedded.cache import disk_full, free_bytes
from twophase.embedded.ports import PortTaken
from twophase.errors import SetupError

_TAIL_BYTES = 64 * 1024
_QUOTE_CHARACTERS = 300
_TELLING = re.compile(r"ERROR|FATAL|Exception|Error occurred|Could not|Unrecognized|Invalid")
_STACK = re.compile(r"\s+at |\s*\.\.\. \d+ more")
_HEAD = re.compile(r"^\S+[ ,]\S* *(ERROR|FATAL|WARN|INFO) +\S+ - ")


@dataclass(frozen=True)
class LogMark:
    """A place in a log, so that what an earlier run wrote is not taken for this one's words."""

    file: Path
    size_bytes: int

    @classmethod
    def end_of(cls, file: Path) -> "LogMark":
        """Return the place where the next line will be written."""
        return cls(file, file.stat().st_size if file.exists() else 0)

    def text_since(self) -> str:
        """Return what was written since, at most the last part of it."""
        try:
            with self.file.open("rb") as log:
                size = self.file.stat().st_size
                # A log that is shorter than it was has been rolled over: all of it is new.
                begin = self.size_bytes if self.size_bytes <= size else 0
                log.seek(max(begin, size - _TAIL_BYTES))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""


def explain(what: str, folder: Path, logs: Sequence[LogMark]) -> SetupError:
    """Return the error for a JVM that ended: full disk, taken port, or its log's own words."""
    text = "\n".join(log.text_since() for log in logs)
    told = any(sign in text for sign in ("No space left on device", "Disk quota exceeded"))
    # A log on the full disk itself can end before it says so.
    if told or free_bytes(folder) < _TAIL_BYTES:
        return disk_full(folder)
    if "Address already in use" in text:
        return PortTaken(
            f"{what} did not start, because another process took one of its ports; try again, or "
            f"choose another port; the log is {logs[0].file}"
        )
    return SetupError(f"{what} did not start: {quote(text)}; the whole log is {logs[0].file}")


def quote(text: str) -> str:
    """Return the last lines that tell something, as one line of bounded length."""
    lines = [line for line in text.splitlines() if line.strip() and not _STACK.match(line)]
    telling = [line for line in lines if _TELLING.search(line)]
    said = " / ".join(_HEAD.sub("", line).strip() for line in (telling or lines)[-2:])
    return said[:_QUOTE_CHARACTERS] or "it wrote nothing to its log"
