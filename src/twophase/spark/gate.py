"""The door through which a query's batches go to its sinks, so that a run can end between two."""

import threading
from typing import TYPE_CHECKING, Any, Final

from twophase.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

_HELD_MS: Final = 600_000


class Gate:
    """A function for foreachBatch: once it is closed, the batch inside ends and no other begins.

    `last` is the batch that went through last; `failure` what a sink raised, as it was raised,
    because Spark hands on only a text; what ends a process, such as sys.exit, as a RuntimeError.
    """

    def __init__(self, write: "Callable[[DataFrame, int], None]") -> None:
        self._write = write
        self._lock = threading.Lock()
        self._closed = False
        self.inside: int | None = None
        self.held: int | None = None
        self.last: int | None = None
        self.failure: BaseException | None = None

    def close(self) -> None:
        """Let no further batch in."""
        with self._lock:
            self._closed = True

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Hand one batch to the sinks; Spark calls this."""
        with self._lock:
            if self._closed:
                self.held = batch_id
            else:
                self.inside = batch_id
        if self.held is not None:
            _hold(frame)
        try:
            self._write(frame, batch_id)
        except Exception as error:
            self.failure = error
            raise
        except BaseException as error:
            # Py4J answers only where an Exception is raised: the JVM would wait for ever.
            self.failure = as_failure(error)
            raise self.failure from error
        else:
            self.last = batch_id
        finally:
            self.inside = None


def _hold(frame: "DataFrame") -> None:
    """Wait in the query's own thread until the query is stopped; never return.

    A return would be success to Spark, and the batch's rows lost. The JVM's sleep runs in the very
    thread that StreamingQuery.stop interrupts, so that Spark sees the end of a stop, not an error.
    """
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001
    jvm.java.lang.Thread.sleep(_HELD_MS)
    raise StoreUnavailable("the run was stopping, and Spark did not end the query; start again")


def as_failure(error: BaseException) -> RuntimeError:
    """Return what would end a process, perhaps as a success, as the failure of a sink."""
    return RuntimeError(f"a sink raised {type(error).__name__}: {error}")
