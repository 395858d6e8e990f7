"""The Java this machine has, and whether it is new enough."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from twophase.errors import SetupError

MINIMUM_MAJOR = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
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


def _major_version(java: Path) -> int | None:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match and answer.returncode == 0 else None
