"""Which processes a process has started, by what the system shows of them (/proc)."""

from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Final

from twophase.embedded.process import ProcessIdentity

_EXECUTOR: Final = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
_PROC: Final = Path("/proc")


def descendants(pid: int) -> list[ProcessIdentity]:
    """Return the processes below this one, nearest first; none where there is no /proc."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in _PROC.glob("[0-9]*"):
        # A process may end between any two looks.
        with suppress(OSError):
            fields = (folder / "stat").read_text("ascii", errors="replace").rpartition(")")[2]
            children[int(fields.split()[1])].append(int(folder.name))
    found, level = [], children[pid]
    while level:
        found += [process for each in level if (process := ProcessIdentity.of(each)) is not None]
        level = [child for parent in level for child in children[parent]]
    return found


def executors_below(pid: int) -> list[ProcessIdentity]:
    """Return the JVMs of Spark's executors below a driver: those of a local-cluster master."""
    return [process for process in descendants(pid) if _EXECUTOR in _command(process.pid)]


def _command(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def can_look() -> bool:
    """Whether this system shows its processes."""
    return (_PROC / "self" / "stat").exists()
