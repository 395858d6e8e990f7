"""The door to the sinks: what they raise comes out as something that Spark is told of."""

import asyncio
import sys

import pytest

from twophase.errors import StoreUnavailable
from twophase.spark.gate import Gate


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_would_end_the_process_is_an_error(raised):
    """Py4J takes no other: its answer would not be sent, and Spark wait for it for ever."""

    def write(_frame, _batch):
        raise raised

    gate = Gate(write)
    with pytest.raises(RuntimeError, match="a sink raised ") as found:
        gate(None, 1)
    assert gate.failure is found.value
    assert type(raised).__name__ in str(found.value)
    assert (gate.inside, gate.last) == (None, None)


def test_sys_exit():
    """Its code is told."""
    gate = Gate(lambda _frame, _batch: sys.exit(7))
    with pytest.raises(RuntimeError, match="SystemExit: 7"):
        gate(None, 1)


def test_errors_stay_what_they_are():
    """By their class the run knows what to do."""
    error = StoreUnavailable("not now")

    def write(_frame, _batch):
        raise error

    gate = Gate(write)
    with pytest.raises(StoreUnavailable):
        gate(None, 1)
    assert gate.failure is error
