"""The most memory that a Python worker of this session has had."""

import os
from pathlib import Path

from twophase.verify.processes import descendants


def worker_peak_mb() -> float:
    """Return the greatest peak among the Python workers that Spark keeps for reuse."""
    peaks = [
        _peak_mb(each.pid)
        for each in descendants(os.getpid())
        if _is_worker(Path(f"/proc/{each.pid}"))
    ]
    return max(peaks)


def _is_worker(folder: Path) -> bool:
    return b"pyspark.daemon" in (folder / "cmdline").read_bytes()


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1000
