"""What the sink asks the driver's JVM for: the running query, and the files of its checkpoint.

There is no public way to a query's run and checkpoint, hence the private names. Every call is a
round trip, and so is every name on the way to a Java class: those are looked up once.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from twophase.errors import ConfigurationError

NOT_THERE = "java.io.FileNotFoundException"


@dataclass(frozen=True, slots=True)
class _Names:
    """Java's classes and functions by their names, and when this JVM was started."""

    path: Any
    mode: Any
    bytes_of: Any
    uuid_of: Any
    started_ms: int


@lru_cache(maxsize=1)
def java_names(jvm: Any) -> _Names:
    """Return what is looked up once in a JVM."""
    management = jvm.java.lang.management.ManagementFactory
    return _Names(
        path=jvm.org.apache.hadoop.fs.Path,
        mode=jvm.org.apache.hadoop.fs.permission.FsPermission,
        bytes_of=jvm.org.apache.commons.io.IOUtils.toByteArray,
        uuid_of=jvm.java.util.UUID.fromString,
        started_ms=int(management.getRuntimeMXBean().getStartTime()),
    )


def started_ms(session: Any) -> int:
    """Return when the driver's JVM was started, by its own clock."""
    return java_names(session._jvm).started_ms  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class Running:
    """One run of a query, as the JVM has it."""

    query_id: str
    run_id: str
    query: Any


# The queries that have called so far, by their ids, while they run.
_RUNNING: dict[str, Running] = {}


def calling_query(session: Any) -> Running | None:
    """Return the query whose thread this is, None where there is none."""
    query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query_id:
        return None
    known = _RUNNING.get(query_id)
    # Of the runs of one query only one is active: a later one has another object.
    return known if known is not None and known.query.isActive() else _running(session, query_id)


def _running(session: Any, query_id: str) -> Running | None:
    # Other queries call from threads of their own meanwhile.
    for name, known in list(_RUNNING.items()):
        if not known.query.isActive() and _RUNNING.get(name) is known:
            _RUNNING.pop(name, None)
    queries = session._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001
    query = queries.get(java_names(session._jvm).uuid_of(query_id))  # noqa: SLF001
    if query is None:
        return None
    # Not the job group, which would be the same: users set one of their own in foreachBatch.
    found = _RUNNING[query_id] = Running(query_id, str(query.runId().toString()), query)
    return found


def is_java(error: Py4JJavaError, name: str) -> bool:
    """Whether a Java error is of this class, or of one that extends it."""
    found = error.java_exception.getClass()
    while found is not None:
        if found.getName() == name:
            return True
        found = found.getSuperclass()
    return False


class Folder:
    """A checkpoint, read by Hadoop's file system and the user's credentials for it."""

    def __init__(self, session: Any, root: str) -> None:
        self.root = root
        self._names = java_names(session._jvm)  # noqa: SLF001
        settings = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        self._files = self._names.path(root).getFileSystem(settings)

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        place = self._names.path(f"{self.root}/{name}")
        try:
            stream = self._files.open(place)
        except Py4JJavaError as error:
            if not is_java(error, NOT_THERE):
                raise
            raise ConfigurationError(
                f"{self.root}/{name} is not there; checkpoint must be the query's own "
                "checkpointLocation"
            ) from None
        try:
            return bytes(self._names.bytes_of(stream))
        finally:
            stream.close()

    def written_ms(self, name: str) -> int:
        """Return when a file was written."""
        place = self._names.path(f"{self.root}/{name}")
        return int(self._files.getFileStatus(place).getModificationTime())
