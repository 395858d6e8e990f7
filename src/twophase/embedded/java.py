"""The Java this machine has, and whether it is new enough."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from twophase.errors import SetupError

MINIMUM_MAJOR = 17
_VERSION = re.compile(r'version "([^"]+)"')
_MAJOR = re.compile(r"(?:1\.)?(\d+)")
_TIMEOUT_S = 30.0


def find_java() -> Path:
    """Return the first Java 17 or newer of $JAVA_HOME and PATH, or say what was found instead."""
    found = []
    for candidate in _candidates():
        major = _major_version(candidate)
        if major is not None and major >= MINIMUM_MAJOR:
            return candidate
        found.append(f"{candidate} is " + (f"Java {major}" if major else "no Java that answers"))
    what = "; ".join(found) or "none was found in $JAVA_HOME or on PATH"
    raise SetupError(
        f"Java {MINIMUM_MAJOR} or newer is needed, but {what}; "
        f"install OpenJDK {MINIMUM_MAJOR} or newer, or set JAVA_HOME to where it is"
    )


def _candidates() -> Iterator[Path]:
    java_home = os.environ.get("JAVA_HOME")
    if java_home and (Path(java_home) / "bin" / "java").exists():
        yield Path(java_home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield Path(on_path)


def java_version(java: Path) -> str | None:
    """Return the version that this Java says it has; None where it says none."""
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return match[1] if match and answer.returncode == 0 else None


def major_of(version: str) -> int | None:
    """Return 17 of 17.0.15, and 8 of 1.8.0_392."""
    match = _MAJOR.match(version)
    return int(match[1]) if match else None


def _major_version(java: Path) -> int | None:
    version = java_version(java)
    return None if version is None else major_of(version)
