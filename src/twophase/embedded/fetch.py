"""Jars in the cache folder: fetched once, checked on every use."""

import shutil
import tempfile
from pathlib import Path

from twophase.embedded import jarset
from twophase.embedded.cache import disk_errors, home, locked
from twophase.embedded.ivy import retrieve
from twophase.embedded.jarset import JarSet
from twophase.embedded.java import find_java
from twophase.embedded.progress import counting
from twophase.errors import SetupError

_LOCK_TIMEOUT_S = 2100.0


def fetch_jars(name: str) -> tuple[Path, ...]:
    """Return the paths of a jar set's files, each verified; download what is missing or wrong.

    Safe when several processes ask at once, and needs no network once all files are there.
    """
    jar_set = jarset.load(name)
    folder = home() / "jars" / name
    with disk_errors(folder):
        if jar_set.missing_from(folder).jars:
            lock_file = folder.with_name(f"{name}.lock")
            with locked(lock_file, timeout_s=_LOCK_TIMEOUT_S, purpose=f"fetching {name}"):
                # Looked at again: another process may have fetched while this one waited.
                missing = jar_set.missing_from(folder)
                if missing.jars:
                    _download(missing, folder)
    return tuple(folder / jar.file_name for jar in jar_set.jars)


def _download(missing: JarSet, folder: Path) -> None:
    java = find_java()
    folder.mkdir(parents=True, exist_ok=True)
    prefix = f".{missing.name}."
    for abandoned in folder.parent.glob(f"{prefix}*"):
        # Only the holder of the lock downloads, so this one belonged to a process that died.
        shutil.rmtree(abandoned, ignore_errors=True)
    title = f"fetching jars of {missing.name}"
    with (
        tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as scratch,
        counting(title, len(missing.jars)) as on_jar,
    ):
        part = Path(scratch)
        retrieve(java, missing, part, on_jar)
        _refuse_wrong(missing, part)
        for jar in missing.jars:
            # A rename per file: a reader sees no jar or the verified one, never a part.
            (part / jar.file_name).replace(folder / jar.file_name)


def _refuse_wrong(jar_set: JarSet, part: Path) -> None:
    wrong = [jar.file_name for jar in jar_set.missing_from(part).jars]
    if wrong:
        raise SetupError(
            f"the download of {jar_set.name} brought {', '.join(wrong)} with a SHA-256 sum other "
            "than the committed one, so nothing was kept; check the repository or mirror it "
            "came from, then try again"
        )
