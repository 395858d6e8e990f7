"""The most memory that Python workers and the driver's Python have had."""

from pathlib import Path

from bench.spark.roles import WORKER, roles

_DRIVER = Path("/proc/self")
# What the kernel takes as: forget the peak so far.
_FORGET = "5"


def worker_peak_mb() -> float:
    """Return the greatest peak among the Python workers that Spark keeps; 0 if there are none."""
    return max(map(_peak_mb, _workers()), default=0.0)


def driver_peak_mb() -> float:
    """Return the peak of this process."""
    return _peak_mb(_DRIVER)


def forget_peaks() -> None:
    """Let the next peaks be those of what comes now."""
    for folder in (_DRIVER, *_workers()):
        (folder / "clear_refs").write_text(_FORGET)


def _workers() -> list[Path]:
    return [folder for role, folder in roles() if role == WORKER]


def _peak_mb(folder: Path) -> float:
    (line,) = (x for x in (folder / "status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1000
