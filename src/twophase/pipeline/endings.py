"""How a run ends: the exit code by which a scheduler knows whether to start it again."""

from enum import IntEnum

from twophase.errors import (
    AccessDenied,
    CommittableLost,
    ConfigurationError,
    Fenced,
    ProtocolViolation,
    RecoveryError,
    RowRejected,
    SetupError,
)


class Ending(IntEnum):
    """Each says what to do next; docs/pipelines.md has the table."""

    DONE = 0
    FAILED = 1
    WRONG = 2
    NEEDS_A_PERSON = 3
    TAKEN_OVER = 4
    ABORTED = 130


_WHAT_TO_DO = {
    Ending.DONE: "the source is used up, or the run was stopped as asked",
    Ending.FAILED: "it failed; starting it again does no harm and may help",
    Ending.WRONG: "the file or the command is wrong; nothing was started",
    Ending.NEEDS_A_PERSON: "a person has to look: the message says what to do; do not start again",
    Ending.TAKEN_OVER: "another run of the same pipeline is at work, or has taken over; let it",
    Ending.ABORTED: "interrupted twice, or before the stream began; starting it again does no harm",
}


def meaning(ending: Ending) -> str:
    """Return what an exit code says, for help and documentation."""
    return _WHAT_TO_DO[ending]


def ending_of(error: BaseException) -> Ending:
    """Return how a run ends that this error has ended."""
    if isinstance(error, Fenced):
        return Ending.TAKEN_OVER
    if isinstance(error, ConfigurationError):
        return Ending.WRONG
    for_people = (
        AccessDenied,
        CommittableLost,
        ProtocolViolation,
        RecoveryError,
        RowRejected,
        SetupError,
    )
    return Ending.NEEDS_A_PERSON if isinstance(error, for_people) else Ending.FAILED


def restart_may_help(error: BaseException) -> bool:
    """Whether the query may be started again within the run: whatever nobody has to look at."""
    return ending_of(error) is Ending.FAILED
