"""What is told of a command that failed: a sentence on stderr, and with --output json an object."""

import errno
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

import click

from twophase.cli.output import JSON
from twophase.cli.run_output import complain, unheard
from twophase.errors import TwoPhaseError

_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
FAILED, UNWRITTEN, INTERRUPTED = 1, 74, 130


class Failure(click.ClickException):
    """An error of a command that has more to tell programs: `more` are keys of its object."""

    def __init__(self, said: str, more: Mapping[str, object] | None = None) -> None:
        super().__init__(said)
        self.more = dict(more or {})


def told(error: BaseException, arguments: Sequence[str]) -> int:
    """Tell why a command failed, and return its exit code."""
    cause = error if isinstance(error, TwoPhaseError) else error.__cause__
    code, said = _read(error)
    if _wants_json(arguments):
        # As `twophase run` has it, in one line: who reads that line by line reads this one too.
        found: dict[str, object] = {"event": "failed", "code": code, "error": said}
        found["error_code"] = cause.code if isinstance(cause, TwoPhaseError) else None
        found |= error.more if isinstance(error, Failure) else {}
        with unheard():
            click.echo(json.dumps(found))
    if isinstance(error, click.ClickException) and not isinstance(cause, TwoPhaseError):
        with unheard():
            error.show()
    else:
        complain(said)
    return code


def _read(error: BaseException) -> tuple[int, str]:
    """Return the exit code of an error, and its sentence."""
    if isinstance(error, TwoPhaseError):
        return FAILED, str(error)
    if isinstance(error, click.ClickException):
        return error.exit_code, error.format_message()
    if isinstance(error, OSError):
        if error.errno in _NOT_WRITTEN and not _takes_more():
            # Not 1, which of `verify` is a verdict: whatever was found, nobody was told of it.
            return UNWRITTEN, f"the output could not be written: {error.strerror}"
        return FAILED, f"{type(error).__name__}: {error}"
    return INTERRUPTED, "interrupted"


def _takes_more() -> bool:
    """Whether it was not stdout that failed: tried, because the error itself names no file."""
    if sys.stdout is None:
        return True
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _wants_json(arguments: Sequence[str]) -> bool:
    # Read here, because a command line that is wrong is never parsed to its end.
    return ("--output", JSON) in pairwise(arguments) or f"--output={JSON}" in arguments
