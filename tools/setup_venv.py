"""Make .venv with exactly what requirements/dev.txt locks; needs only Python itself.

Run by make. Every way it can fail ends in one sentence that says what to do.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements" / "dev.txt"
PROJECT = ROOT / "pyproject.toml"
STAMP = VENV / "installed"
NEEDED_BYTES = 3_000_000_000


def fail(sentence: str) -> None:
    """Print one sentence and stop make."""
    sys.exit(f"twophase set-up: {sentence}")


def wanted() -> str:
    """Return what the virtual environment must have been made from."""
    parts = (LOCK.read_bytes(), PROJECT.read_bytes(), sys.version.encode(), str(ROOT).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def run(*command: str, otherwise: str) -> None:
    """Run one step with its own output shown; its failure is the given sentence."""
    try:
        subprocess.run(command, check=True, cwd=ROOT)
    except FileNotFoundError:
        fail(f"{command[0]} was not found; {otherwise}")
    except subprocess.CalledProcessError:
        fail(otherwise)


def main() -> None:
    """Make the virtual environment unless it is there and current."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this is the check that says so to a person
        found = ".".join(map(str, sys.version_info[:3]))
        fail(f"Python 3.11 or newer is needed, {sys.executable} is {found}; run make PYTHON=...")
    if STAMP.exists() and STAMP.read_text() == wanted():
        return
    free = shutil.disk_usage(ROOT).free
    if free < NEEDED_BYTES:
        fail(f"{free // 10**6} MB are free below {ROOT}, {NEEDED_BYTES // 10**6} MB are needed")
    print("twophase set-up: making .venv and installing the locked dependencies", flush=True)
    STAMP.unlink(missing_ok=True)
    run(
        *(sys.executable, "-m", "venv", "--clear", str(VENV)),
        otherwise="python -m venv failed; install your system's venv package (python3-venv)",
    )
    pip = (str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check")
    quiet = ("--progress-bar", "off") if os.environ.get("CI") else ()
    run(
        *(*pip, *quiet, "--require-hashes", "-r", str(LOCK)),
        otherwise="pip could not install the lock; see its message above, check network and disk",
    )
    run(
        *(*pip, "--quiet", "--no-deps", "--no-build-isolation", "-e", str(ROOT)),
        otherwise="this package itself could not be installed; see pip's message above",
    )
    STAMP.write_text(wanted())


if __name__ == "__main__":
    main()
