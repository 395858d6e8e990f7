"""What came from a reference is in no event of a run, whatever its part."""

import pytest
from unit.pipeline.stream import Stream, runner_of

from twophase.observe import BatchRecord
from twophase.pipeline.events import BatchDone, Restarting, Started, Status, Stopped, hidden

CANARY = "canary-of-a-test"


def hide(text):
    return text.replace(CANARY, "***")


@pytest.mark.parametrize(
    "event",
    [
        Started(f"p-{CANARY}", f"s3a://{CANARY}/c", ("a", f"b-{CANARY}")),
        Status(batch=1, phase=f"reads {CANARY}"),
        Restarting(f"no {CANARY}", 1, 3, 1.0),
        Stopped("asked", 1, 10, 0, {f"files[/{CANARY}]": {"at": [f"/{CANARY}/1", 7]}}),
        BatchDone(
            BatchRecord(
                sink_id=f"s-{CANARY}",
                owner=CANARY,
                batch=1,
                run_id=None,
                guarantee="exactly-once",
                outcome="failed",
                path="driver",
                rows=0,
                total_s=1.0,
                warnings=(f"a {CANARY}",),
                error=f"no {CANARY}",
            )
        ),
    ],
)
def test_every_text_of_an_event(event):
    """Also in what is nested; everything else stays as it is."""
    found = hidden(event, hide)
    assert CANARY not in repr(found)
    assert "***" in repr(found)
    assert type(found) is type(event)
    assert hidden(event, str) == event


def test_everything_that_a_run_tells():
    """From the checkpoint's name to Spark's description of the source."""
    failures = [OSError(CANARY)]

    def sink(_frame, _batch):
        if failures:
            raise failures.pop()

    stream = Stream(2, described=f"files[/{CANARY}]")
    runner, told = runner_of(stream, lambda: sink, hide=hide, checkpoint=f"/{CANARY}")
    ended = runner.run()
    kinds = {type(event) for event in told}
    assert kinds == {Started, Status, Restarting}
    assert CANARY not in repr((told, ended))
    assert (told[0].checkpoint, list(ended.offsets)) == ("/***", ["files[/***]"])
