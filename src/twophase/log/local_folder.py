"""A decision log's folder on a disk of this machine, or one that is mounted like one.

A file is written and synced under another name, and linked to its own: the system refuses the link
where the name is taken. Hadoop looks and then renames, which leaves a moment in which two drivers
both succeed, and starts a process for each look.

A process that is killed in between leaves the other name, its draft. The next start deletes drafts
that are older than a day. One who was frozen for so long, and wakes up, cannot link what is gone,
and has created nothing.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from twophase.errors import StoreUnavailable

_OWNER_ONLY: Final = 0o600
_FOLDER: Final = 0o700
# The file server's clock may be another one, but not by so much.
_DRAFT_KEPT_S: Final = 86_400.0


class LocalFolder:
    """Files that only their owner may read; `shown` is how people call the folder."""

    def __init__(self, place: Path, shown: str) -> None:
        self._place = place
        self._shown = shown
        self._swept = False

    @property
    def root(self) -> str:
        """Where the folder lies, for people."""
        return self._shown

    def names(self) -> list[str]:
        """Return the names of the files; none where there is no folder yet."""
        try:
            found = [each.name for each in self._place.iterdir()]
        except FileNotFoundError:
            return []
        # Hidden are files that are not yet whole, and checksums that Hadoop has left.
        return [name for name in found if not name.startswith(".")]

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes; None where it is gone."""
        try:
            return (self._place / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, data: bytes) -> bool:
        """Make a file, whole or not at all; False if it is there."""
        self._place.mkdir(_FOLDER, parents=True, exist_ok=True)
        self._sweep()
        draft = self._place / f".{name}.{uuid4().hex}.tmp"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                self._sync(descriptor)
            (self._place / name).hardlink_to(draft)
        except FileExistsError:
            return False
        except FileNotFoundError as error:
            raise StoreUnavailable(
                f"the draft of {name} in {self._shown} was deleted before it got its name, by "
                "hand, or as a dead driver's after a day; nothing is created; start again"
            ) from error
        finally:
            draft.unlink(missing_ok=True)
        self._sync_folder()
        return True

    def delete(self, name: str) -> None:
        """Remove a file, or do nothing where it is gone."""
        (self._place / name).unlink(missing_ok=True)
        (self._place / f".{name}.crc").unlink(missing_ok=True)

    def can_link(self) -> bool:
        """Whether files here can have two names; without that there is nothing to rely on."""
        draft, second = (f".{uuid4().hex}.tmp" for _ in range(2))
        try:
            self._place.mkdir(_FOLDER, parents=True, exist_ok=True)
            (self._place / draft).touch()
            (self._place / second).hardlink_to(self._place / draft)
        except OSError:
            return False
        finally:
            for each in (draft, second):
                with suppress(OSError):
                    (self._place / each).unlink(missing_ok=True)
        return True

    def _sweep(self) -> None:
        """Delete, once, the drafts of processes that were killed; what cannot be deleted stays."""
        if self._swept:
            return
        self._swept = True
        latest_s = time.time() - _DRAFT_KEPT_S
        for draft in self._place.glob(".*.tmp"):
            with suppress(OSError):
                if draft.stat().st_mtime < latest_s:
                    draft.unlink()

    def _sync(self, descriptor: int) -> None:
        """Let what was written outlive the machine's end."""
        os.fsync(descriptor)

    def _sync_folder(self) -> None:
        """Let the names outlive it, too."""
        folder = os.open(self._place, os.O_RDONLY)
        try:
            self._sync(folder)
        finally:
            os.close(folder)
