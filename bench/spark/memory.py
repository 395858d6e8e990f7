"""The most memory that a Python worker of this session has had."""

import os
from collections.abc import Iterator
from pathlib import Path

from twophase.verify.processes import descendants

# What the kernel takes as: forget the peak so far.
_FORGET = "5"


def worker_peak_mb() -> float:
    """Return the greatest peak among the Python workers that Spark keeps for reuse."""
    return max(map(_peak_mb, _workers()))


def forget_peaks() -> None:
    """Let the next peak be that of what comes now."""
    for folder in _workers():
        (folder / "clear_refs").write_text(_FORGET)


def _workers() -> Iterator[Path]:
    for each in descendants(os.getpid()):
        folder = Path(f"/proc/{each.pid}")
        if b"pyspark.daemon" in (folder / "cmdline").read_bytes():
            yield folder


def _peak_mb(folder: Path) -> float:
    (line,) = (x for x in (folder / "status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1000
