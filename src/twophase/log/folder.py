"""What the decision log needs of a file system."""

from typing import Protocol


class Folder(Protocol):
    """One flat folder of small files that are written once.

    Everything rests on `create`: of several processes that create one name, one succeeds, and
    whoever reads the file finds all of it.
    """

    @property
    def root(self) -> str:
        """Where the folder lies, for people."""

    def names(self) -> list[str]:
        """Return the names of the files; none where there is no folder yet."""

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes; None where it is gone."""

    def create(self, name: str, data: bytes) -> bool:
        """Make a file, whole or not at all, readable for its owner only; False if it is there."""

    def delete(self, name: str) -> None:
        """Remove a file, or do nothing where it is gone."""
