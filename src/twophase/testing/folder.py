"""A decision log's folder on this machine, without Spark and its JVM."""

import os
from pathlib import Path
from uuid import uuid4


class LocalFolder:
    """Files that are linked into place, so that each is there whole or not at all, and once.

    For tests, which kill processes and not the machine: nothing is synced to the disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def root(self) -> str:
        """Where the folder lies, for people."""
        return str(self._path)

    def names(self) -> list[str]:
        """Return the names of the files."""
        return [each.name for each in self._path.iterdir() if not each.name.startswith(".")]

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes; None where it is gone."""
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, data: bytes) -> bool:
        """Make a file, whole or not at all, readable for its owner only; False if it is there."""
        temporary = self._path / f".{name}.{uuid4().hex}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            (self._path / name).hardlink_to(temporary)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        return True

    def delete(self, name: str) -> None:
        """Remove a file, or do nothing where it is gone."""
        (self._path / name).unlink(missing_ok=True)
