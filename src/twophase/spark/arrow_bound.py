"""How many bytes Spark puts into one Arrow batch for a Python worker, job by job."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from twophase.spark.connect import over_connect

_SETTING: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
# Spark takes this one as: do not weigh.
UNWEIGHED: Final = 2**31 - 1


@contextmanager
def arrow_bound(session: Any, most_bytes: int) -> Iterator[None]:
    """Bound the batches of this thread's jobs; a user's own bound stays, and so over Connect.

    A property of the thread, since runs of a batch job may share a session.
    """
    if over_connect(session):
        yield
        return
    context = session.sparkContext
    before = context.getLocalProperty(_SETTING)
    context.setLocalProperty(_SETTING, str(most_bytes))
    try:
        yield
    finally:
        context.setLocalProperty(_SETTING, before)
