"""A decision log's folder for tests, which kill processes and not the machine."""

from pathlib import Path

from twophase.log import local_folder


class LocalFolder(local_folder.LocalFolder):
    """The folder that ships for local disks, but that nothing is synced to the disk."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, str(path))

    def _sync(self, descriptor: int) -> None:
        pass
