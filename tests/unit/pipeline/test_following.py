"""What a run knows of its sinks while they work, and the gate before them."""

from types import SimpleNamespace

import pytest

from twophase.call_watch import CallWatch, Phase
from twophase.observe import Call
from twophase.pipeline.following import Following
from twophase.spark.gate import Gate


def test_phase_and_transaction_of_the_call_that_goes_on():
    """Read while it goes on; nothing once it is over."""
    following, watch = Following(), CallWatch()
    assert (following.phase(), following.transaction()) == (None, (None, None))
    following.follow(Call("s", None, 3, watch))
    watch.phase = Phase.SEND
    watch.opens(60.0)
    age_s, limit_s = following.transaction()
    assert following.phase() == "send"
    assert (age_s >= 0.0, limit_s) == (True, 60.0)
    watch.stop()
    assert (following.phase(), following.transaction()) == (None, (None, None))


class Stopped(Exception):
    """What the JVM's sleep raises when the query is stopped."""


def frame(asleep):
    """A DataFrame whose JVM sleeps as it is told."""
    thread = SimpleNamespace(sleep=asleep)
    jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(Thread=thread)))
    return SimpleNamespace(sparkSession=SimpleNamespace(_jvm=jvm))


def test_a_closed_gate_lets_no_batch_in():
    """The batch is neither written nor, by a return, taken for written."""
    written = []

    def asleep(_ms):
        raise Stopped

    gate = Gate(lambda _frame, batch: written.append(batch))
    gate(frame(asleep), 0)
    gate.close()
    with pytest.raises(Stopped):
        gate(frame(asleep), 1)
    assert (written, gate.last, gate.held, gate.inside) == ([0], 0, 1, None)
    with pytest.raises(Exception, match="did not end the query"):
        gate(frame(lambda _ms: None), 1)
    assert written == [0]


def test_a_gate_keeps_what_a_sink_raised():
    """Spark hands on only its text."""
    failure = ValueError("no")

    def write(_frame, _batch):
        raise failure

    gate = Gate(write)
    with pytest.raises(ValueError, match="no"):
        gate(frame(None), 0)
    assert (gate.failure, gate.last, gate.inside) == (failure, None, None)
