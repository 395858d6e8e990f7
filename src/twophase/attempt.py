"""One attempt of one task: its rows into one transaction, prepared or dropped."""

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from twophase.commit.attempts import Attempt
from twophase.errors import ConfigurationError
from twophase.log.decision import Committable, Prepared
from twophase.two_phase import TwoPhaseCommitSink

# All committables of a batch are in one file, and each crosses Spark as one row.
_COMMITTABLE_BYTES_MAX: Final = 1_000_000


def run_attempt(
    sink: TwoPhaseCommitSink[Any], attempt: Attempt, batches: Iterable[pa.RecordBatch]
) -> Prepared | None:
    """Write all rows and prepare them; None where there are none, and then nothing is begun."""
    transaction: Any = None
    begun, rows, size = False, 0, 0
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if not begun:
                transaction, begun = sink.begin(attempt), True
            sink.write(transaction, batch)
            rows += batch.num_rows
            size += batch.nbytes
        if not begun:
            return None
        committable = checked(sink, sink.prepare(transaction))
    except BaseException:
        if begun:
            # The first error is the one to tell; what stays open is ended by the driver.
            with suppress(Exception):
                sink.abort(transaction)
        raise
    return Prepared(attempt.task, attempt.name, rows, committable, size)


def checked(sink: TwoPhaseCommitSink[Any], committable: object) -> Committable:
    """Return a committable that comes back from JSON as it was, or say what is wrong with it."""
    name = type(sink).__name__
    try:
        text = json.dumps(committable, allow_nan=False)
        same = json.loads(text) == committable
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{name}.prepare returned a committable that is no JSON ({error}); allowed are dicts "
            "of text, whole numbers, booleans, None, and lists and dicts of these"
        ) from error
    if not isinstance(committable, dict) or not same:
        raise ConfigurationError(
            f"{name}.prepare returned {str(committable)[:80]!r}, which JSON gives back as another "
            "value; allowed are dicts with text keys, and lists instead of tuples"
        )
    if len(text) > _COMMITTABLE_BYTES_MAX:
        raise ConfigurationError(
            f"{name}.prepare returned a committable of {len(text)} bytes; allowed are "
            f"{_COMMITTABLE_BYTES_MAX}; keep the rows in the store and a name in the committable"
        )
    return committable
