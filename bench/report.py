"""Measured figures: what they are, what they must reach, and the one file they are written to."""

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("twophase", "pyarrow", "numpy", "confluent-kafka", "kafka-python", "lz4", "pyspark")
_WHOLE_FROM = 100


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: every run of ours and of the peer beside it.

    Greater is better, and what it must reach a least; with `lower` it is the other way round.
    """

    name: str
    unit: str
    values: tuple[float, ...]
    peer: str = ""
    peer_values: tuple[float, ...] = ()
    must: float | None = None
    aim: float | None = None
    lower: bool = False

    @property
    def best(self) -> float:
        """Our best run; on a noisy machine the best tells most."""
        return self._best(self.values)

    @property
    def ratio(self) -> float | None:
        """Our best run to the peer's best."""
        return self.best / self._best(self.peer_values) if self.peer_values else None

    @property
    def found(self) -> float:
        """What is held against `must`: the ratio, or without a peer the best run."""
        return self.best if self.ratio is None else self.ratio

    @property
    def reached(self) -> bool:
        """Whether it is what it must be."""
        if self.must is None:
            return True
        return self.found <= self.must if self.lower else self.found >= self.must

    def as_json(self) -> dict[str, object]:
        """Return all that was measured and what follows from it."""
        return {
            "name": self.name,
            "unit": self.unit,
            "values": list(self.values),
            "peer": self.peer,
            "peer_values": list(self.peer_values),
            "ratio": self.ratio,
            "must": self.must,
            "aim": self.aim,
            "lower_is_better": self.lower,
            "reached": self.reached,
        }

    def __str__(self) -> str:
        digits = 0 if self.best >= _WHOLE_FROM else 2
        text = f"{self.name:<58} {self.best:>14,.{digits}f} {self.unit}"
        if self.ratio is not None:
            text += f"  {self.ratio:5.2f} x {self.peer}"
        if self.must is not None:
            bound = "at most" if self.lower else "must"
            text += f"  ({bound} {self.must:g}: {'reached' if self.reached else 'NOT REACHED'})"
        return text

    def _best(self, values: tuple[float, ...]) -> float:
        return min(values) if self.lower else max(values)


def machine() -> dict[str, object]:
    """Describe what the figures were measured on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        named = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = named[0].partition(":")[2].strip() if named else model
    return {"cores": os.cpu_count(), "processor": model, "system": platform.platform()}


def write_report(path: Path, figures: Iterable[Figure]) -> None:
    """Write all figures with machine and versions as one JSON file."""
    report = {
        "machine": machine(),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in PACKAGES},
        "figures": [figure.as_json() for figure in figures],
    }
    path.write_text(json.dumps(report, indent=2) + "\n")
