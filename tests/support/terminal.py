"""A real terminal for a command, and what a person sees on it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from codecs import getincrementaldecoder

_COLUMNS, _LINES = 160, 40
_PART = re.compile(r"\x1b\[(?P<arguments>[?0-9;]*)(?P<final>[A-Za-z])|(?P<plain>[^\x1b])")
CTRL_C = b"\x03"


class Screen:
    """What stands on a terminal: the few controls that are used are followed, others refused."""

    def __init__(self):
        self._lines, self._line, self._column = [""], 0, 0
        self.cursor_is_shown = True
        self._waiting = ""

    @property
    def lines(self):
        """Every line that was not wiped, without what is blank behind its text."""
        return [line.rstrip() for line in self._lines]

    @property
    def at_the_beginning_of_a_line(self):
        """Whether a shell's prompt would stand alone in its line."""
        return self._column == 0 and not self._lines[self._line].strip()

    def write(self, text):
        """Take what the terminal was sent."""
        text, self._waiting = self._waiting + text, ""
        at = 0
        while at < len(text):
            found = _PART.match(text, at)
            if found is None:
                self._waiting = text[at:]
                assert len(self._waiting) < 20, f"no such control: {self._waiting!r}"
                return
            at = found.end()
            if found["plain"]:
                self._put(found["plain"])
            else:
                self._control(found["arguments"], found["final"])

    def _put(self, character):
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._line += 1
            if self._line == len(self._lines):
                self._lines.append("")
        else:
            assert character.isprintable(), repr(character)
            line = self._lines[self._line].ljust(self._column)
            self._lines[self._line] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1

    def _control(self, arguments, final):
        match arguments, final:
            case "?25", "l" | "h":
                self.cursor_is_shown = final == "h"
            case "2", "K":
                self._lines[self._line] = ""
            case count, "A":
                self._line = max(0, self._line - int(count or 1))
            case _, "m":
                pass
            case _:
                raise AssertionError(f"no such control: {arguments}{final}")


class OnTerminal:
    """A command in the foreground of a terminal of its own."""

    def __init__(self, command, **more):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
        self._before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            command,
            **{"stdin": theirs, "stdout": theirs, "stderr": theirs} | more,
            start_new_session=True,
            env=os.environ | {"TERM": "xterm-256color"},
            # Ctrl-C is a signal only where the terminal is the session's own.
            preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        self._theirs = theirs
        self._decoder = getincrementaldecoder("utf-8")()
        self.screen, self.sent = Screen(), ""

    def press(self, key):
        """Press a key."""
        os.write(self._ours, key)

    def until(self, wanted, timeout_s=60.0):
        """Look at the terminal until something is as wanted."""
        deadline_s = time.monotonic() + timeout_s
        while not wanted():
            assert time.monotonic() < deadline_s, self.sent[-3000:]
            ended = self.process.poll() is not None
            if not self._look() and ended:
                assert wanted(), self.sent[-3000:]

    def end(self, timeout_s=60.0):
        """Wait for the end of the command; return its exit code."""
        self.until(lambda: self.process.poll() is not None, timeout_s)
        while self._look():
            pass
        return self.process.returncode

    def is_as_before(self):
        """Whether the terminal's settings are as they were found."""
        return termios.tcgetattr(self._theirs) == self._before

    def close(self):
        """End the command if it still runs, and take the terminal away."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._theirs)
        os.close(self._ours)

    def _look(self):
        ready, _, _ = select.select([self._ours], [], [], 0.1)
        if not ready:
            return False
        text = self._decoder.decode(os.read(self._ours, 65_536))
        self.sent += text
        self.screen.write(text)
        return True
