"""Running a Spark job, and telling our own errors from the user's in what it raises."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twophase import errors
from twophase.errors import ConfigurationError, StoreUnavailable, TwoPhaseError
from twophase.sink import BlocksGone

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OURS = re.compile(r"\b(TWOPHASE_[A-Z_]+): (.+)")
# Spark has lost what was materialised, or has noticed by itself that a task which it ran again gave
# another output than before and cannot go back.
_LOST_BLOCKS = re.compile(
    r"Checkpoint block \S+ not found|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
    r"|indeterminate output was failed and retried"
)


def execute(frame: "DataFrame") -> None:
    """Execute the plan and write nothing: state stores advance only by that."""
    frame.write.format("noop").mode("overwrite").save()


def check_is_job(frame: "DataFrame") -> None:
    """Refuse a stream where a batch job is meant."""
    if frame.isStreaming:
        raise ConfigurationError(
            "the DataFrame is a stream; write it by writeStream.foreachBatch(sink)"
        )


def asked(act: Callable[[], Any], *, sending: bool = False) -> Any:
    """Run a Spark job; what our own tasks raised in it comes back as our own error.

    Any other failure is the user's plan, raised as it is, but for a send, which runs none of it: an
    executor was lost, or Spark gave up.
    """
    try:
        return act()
    except TwoPhaseError:
        raise
    except Exception as error:
        found = error_in(str(error))
        if found is None and sending:
            found = StoreUnavailable(f"the send job failed: {str(error)[:500]}")
        if found is None:
            raise
        raise found from error


def error_in(text: str) -> Exception | None:
    """Return the error of our own that a text tells of, if it does."""
    # Spark hands on only the text of what a task raised; that is why it begins with a code.
    if _LOST_BLOCKS.search(text):
        return BlocksGone("Spark has lost blocks, or has two versions of them")
    found = _OURS.search(text)
    if found is None:
        return None
    kinds = {kind.code: kind for kind in _all_errors()}
    return kinds.get(found[1], StoreUnavailable)(found[2].split("\n")[0])


def _all_errors() -> list[type[TwoPhaseError]]:
    return [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, TwoPhaseError)
    ]
