"""One run of a pipeline at a time on a machine: a scheduler may call before the last is done.

Spark does not keep two queries off one checkpoint: each plans batches in the other's place. The
sinks notice that and let nothing be lost or doubled, but a person may then have to look. Runs on
two machines are kept apart by nothing but the sinks.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from twophase.errors import Fenced, SetupError

_PID_BYTES_MAX: Final = 20


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
        yield
    finally:
        os.close(file)
