"""The user's cache folder: where it is, who may change it, and what a full disk means."""

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twophase.embedded.progress import waiting
from twophase.errors import SetupError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)
_LOCK_POLL_S = 0.1


def home() -> Path:
    """Return $TWOPHASE_HOME, else $XDG_CACHE_HOME/twophase, else ~/.cache/twophase."""
    if chosen := os.environ.get("TWOPHASE_HOME"):
        return Path(chosen).expanduser().absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser().absolute() / "twophase"


def free_bytes(folder: Path) -> int:
    """Return how much may still be written to the disk of a folder, which need not exist yet."""
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return shutil.disk_usage(existing).free


def disk_full(folder: Path) -> SetupError:
    """Return the error that says where space is missing and how much is left."""
    return SetupError(
        f"the disk that holds {folder} is full ({free_bytes(folder)} bytes are free); "
        "free some space, or set TWOPHASE_HOME to a folder on another disk"
    )


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn a full disk or a folder that may not be written into a SetupError that names it."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise disk_full(folder) from error
        if error.errno in _NOT_OURS:
            raise SetupError(
                f"{error.filename or folder} may not be written ({error.strerror}); "
                "set TWOPHASE_HOME to a folder that this user may write"
            ) from error
        raise


@contextmanager
def locked(lock_file: Path, *, timeout_s: float, purpose: str) -> Iterator[None]:
    """Hold an exclusive lock among all processes; give up with a SetupError after timeout_s."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("a") as handle:
        if not _try_lock(handle.fileno()):
            with waiting(f"waiting for another process, busy {purpose}"):
                got = _wait_for_lock(handle.fileno(), time.monotonic() + timeout_s)
            if not got:
                raise SetupError(
                    f"another process has been busy {purpose} for more than {timeout_s:.0f} s; "
                    f"end it, or wait and try again (lock file {lock_file})"
                )
        # Closing the file gives the lock back, also when this process is killed.
        yield


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that a reader sees the old text or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _wait_for_lock(descriptor: int, deadline: float) -> bool:
    while not _try_lock(descriptor):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOCK_POLL_S)
    return True


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
