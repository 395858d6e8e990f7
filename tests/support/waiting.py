"""Waiting for what other threads and processes bring about."""

import time


def wait_until(condition, seconds=60.0):
    """Return when the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.01)
