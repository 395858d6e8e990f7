"""One run of a pipeline at a time on a machine: a scheduler may call before the last is done.

Spark does not keep two queries off one checkpoint: each plans batches in the other's place. The
sinks notice that and let nothing be lost or doubled, but a person may then have to look. Runs on
two machines, of two users or with two folders for temporary files are kept apart by nothing but
the sinks.
"""

import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from twophase.errors import Fenced, SetupError

_PID_BYTES_MAX: Final = 20
# What cleans such folders up goes by days.
_TOUCH_S: Final = 3600.0


@contextmanager
def one_run(checkpoint: str) -> Iterator[None]:
    """Hold the checkpoint for this process; the system lets go of it, however the process ends."""
    place = checkpoint.rstrip("/").encode(errors="backslashreplace")
    name = sha256(place).hexdigest()[:16]
    try:
        path = Path(tempfile.gettempdir()) / f"twophase-run-{os.getuid()}-{name}.lock"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SetupError(
            f"the lock of this pipeline's run cannot be made ({error}); let TMPDIR name a folder "
            "that this user may write to"
        ) from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = os.read(file, _PID_BYTES_MAX).decode(errors="replace")
            raise Fenced(
                f"another run of this pipeline is at work on this machine (process {other}); let "
                "it, or stop it first"
            ) from None
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        with _looking_used(file):
            yield
    finally:
        os.close(file)


@contextmanager
def _looking_used(file: int) -> Iterator[None]:
    """Keep a file young: a new one in its place would be another lock."""
    over = threading.Event()

    def touch() -> None:
        while not over.wait(_TOUCH_S):
            os.utime(file)

    thread = threading.Thread(target=touch, name="twophase-lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
