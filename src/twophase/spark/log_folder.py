"""A decision log's folder on the checkpoint's file system, by Spark's own manager of checkpoints.

What makes Spark's log of offsets atomic on a file system makes this one: a file is written under
another name and renamed where nothing is, or whatever
`spark.sql.streaming.checkpointFileManagerClass` does instead. On a local disk the system itself
can do better.
"""

from pathlib import Path
from threading import Lock
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from twophase.errors import SetupError
from twophase.log.folder import Folder
from twophase.log.local_folder import LocalFolder
from twophase.spark.driver_jvm import NOT_THERE, is_java, java_names

# For their owner only, as Hadoop writes modes.
_FILE, _FOLDER = "600", "700"
# On a local disk the manager looks and then renames: at least in one process nobody comes between.
_NAMING: Final = Lock()
_THERE = "org.apache.hadoop.fs.FileAlreadyExistsException"
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
# Since Spark 4.1, and before.
_PACKAGES = ("streaming.checkpointing", "streaming")


def folder_at(session: Any, root: str) -> Folder:
    """Return the folder: by the system's own links on a local disk, else by Spark's manager.

    A manager that the user chose is the one that is used.
    """
    hadoop = HadoopFolder(session, root)
    state = session._jsparkSession.sessionState()  # noqa: SLF001
    settings = state.newHadoopConf()
    if settings.get(_MANAGER) is not None:
        return hadoop
    path = java_names(session._jvm).path(root)  # noqa: SLF001
    files = path.getFileSystem(settings)
    if files.getUri().getScheme() != "file":
        return hadoop
    local = LocalFolder(Path(files.makeQualified(path).toUri().getPath()), root)
    return local if local.can_link() else hadoop


class HadoopFolder:
    """Files that only their owner may read, where the file system has modes.

    A manager over a file system that is cached gets one that was made with other settings, and
    heeds no umask of ours: so modes are set on what is made. The folder's, which comes first, keeps
    others from a file before it has its own.
    """

    def __init__(self, session: Any, root: str) -> None:
        settings = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        settings.set("fs.permissions.umask-mode", "077")
        names = java_names(session._jvm)  # noqa: SLF001
        self._path, self._bytes_of, self._mode = names.path, names.bytes_of, names.mode
        self._root = root
        self._made = False
        self._files = _manager(session, self._path(root), settings)
        self._modes = self._path(root).getFileSystem(settings)

    @property
    def root(self) -> str:
        """Where the folder lies, for people."""
        return self._root

    def names(self) -> list[str]:
        """Return the names of the files; none where there is no folder yet."""
        try:
            found = self._files.list(self._path(self._root))
        except Py4JJavaError as error:
            if not is_java(error, NOT_THERE):
                raise
            return []
        return [each.getPath().getName() for each in found]

    def read(self, name: str) -> bytes | None:
        """Return a file's bytes; None where it is gone."""
        stream = None
        try:
            stream = self._files.open(self._place(name))
            return bytes(self._bytes_of(stream))
        except Py4JJavaError as error:
            # Some stores say so at the first read only.
            if not is_java(error, NOT_THERE):
                raise
            return None
        finally:
            if stream is not None:
                stream.close()

    def create(self, name: str, data: bytes) -> bool:
        """Make a file, whole or not at all; False if it is there."""
        self._make()
        stream = None
        try:
            stream = self._files.createAtomic(self._place(name), False)  # noqa: FBT003 - Java's
            stream.write(data)
            with _NAMING:
                stream.close()
        except Py4JJavaError as error:
            if stream is not None:
                stream.cancel()
            if is_java(error, _THERE):
                return False
            raise
        self._close(self._place(name), _FILE)
        return True

    def delete(self, name: str) -> None:
        """Remove a file, or do nothing where it is gone."""
        self._files.delete(self._place(name))

    def _make(self) -> None:
        """Make the folder, once; one that is there keeps its modes."""
        if self._made:
            return
        root = self._path(self._root)
        if not self._files.exists(root):
            self._files.mkdirs(root)
            self._close(root, _FOLDER)
        self._made = True

    def _close(self, place: Any, mode: str) -> None:
        try:
            self._modes.setPermission(place, self._mode(mode))
        except Py4JJavaError:
            # Another driver may have trimmed it already.
            if self._files.exists(place):
                raise

    def _place(self, name: str) -> Any:
        return self._path(f"{self._root}/{name}")


def _manager(session: Any, root: Any, settings: Any) -> Any:
    for package in _PACKAGES:
        name = f"org.apache.spark.sql.execution.{package}.CheckpointFileManager$"
        loader = session._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # noqa: SLF001
        try:
            found = loader.loadClass(name)
        except Py4JJavaError:
            continue
        return found.getField("MODULE$").get(None).create(root, settings)
    raise SetupError(
        "this Spark has no CheckpointFileManager where Spark 4.0 to 4.2 have it; use one of these"
    )
