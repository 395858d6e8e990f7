"""Shuffle files that go when they are not needed any more, not when the collector comes by."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from twophase.spark.connect import over_connect

# Since Spark 4.1; a DataFrame takes it when it is made. 4.0 leaves the files to the collector.
_SETTING: Final = "spark.sql.classic.shuffleDependency.fileCleanup.enabled"
_ONE_AT_A_TIME: Final = threading.Lock()


@contextmanager
def deleted_at_once(session: Any) -> Iterator[None]:
    """Let Spark delete the shuffle files of frames that are made inside, once these have run.

    A Connect server does so by itself.
    """
    if over_connect(session):
        yield
        return
    # Runs of a batch job may share a session: none may see the other's setting as the user's.
    with _ONE_AT_A_TIME:
        before = session.conf.get(_SETTING, None)
        session.conf.set(_SETTING, "true")
        try:
            yield
        finally:
            if before is None:
                session.conf.unset(_SETTING)
            else:
                session.conf.set(_SETTING, before)
