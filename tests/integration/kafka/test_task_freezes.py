"""Kafka in task scope: a driver is frozen past its timeout (SIGSTOP) while another takes over."""

import os
import signal
import time

import pytest
from support.readers import read
from support.steps import REFUSED

from twophase.errors import CheckpointBehind, Fenced, InvalidState, TransactionExpired

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

TIMEOUT_S = 8
BATCHES = 3
DECIDES = "create batch-000000000001-0001"
VOIDS = "create batch-000000000001-0000"
DONE = "create done-000000000001-0001"
BEFORE_IT_DECIDES = [
    ("before", "create epoch", CheckpointBehind),
    ("after", "create epoch", CheckpointBehind),
    ("before", "own twophase", Fenced),
    ("after", "own twophase", Fenced),
    ("before", VOIDS, Fenced),
    ("after", VOIDS, Fenced),
    ("before", "open", TransactionExpired),
    ("after", "open", TransactionExpired),
    ("before", "write", TransactionExpired),
    ("after", "prepare", TransactionExpired),
    ("before", "confirm", InvalidState),
    ("after", "confirm", TransactionExpired),
    ("before", DECIDES, Fenced),
]
AFTER_IT_HAS_DECIDED = [
    ("after", DECIDES, Fenced),
    ("before", "commit", Fenced),
    ("after", "commit", Fenced),
    ("before", DONE, Fenced),
    ("after", DONE, Fenced),
    ("before", "note", Fenced),
]


def wait_until_frozen(driver):
    """Return once the process stands still; `waitpid` tells of that, too."""
    _, status = os.waitpid(driver.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), status


def frozen(loop, when, step, meanwhile):
    """Freeze a driver at a step and wake it up later; return its code and what it said."""
    with loop.start(BATCHES, at=step, after=when == "after", act="freeze") as driver:
        try:
            wait_until_frozen(driver)
            frozen_s = time.monotonic()
            meanwhile()
            # Its transactions were open before it froze.
            time.sleep(max(0.0, frozen_s + TIMEOUT_S + 2 - time.monotonic()))
            before = read(loop.stage.broker.bootstrap_servers, loop.stage.topic)
            driver.send_signal(signal.SIGCONT)
            said, _ = driver.communicate(timeout=120)
        finally:
            driver.kill()
    assert read(loop.stage.broker.bootstrap_servers, loop.stage.topic) == before
    return driver.returncode, said


def another_writes(loop, batches):
    """Another driver writes all batches up to this one."""
    code, said = loop.run(batches)
    assert code == 0, said
    loop.check(batches, "the other driver")


def check_refused(loop, ended, error):
    """The one that woke up stopped by name; the query goes on."""
    code, said = ended
    assert code == REFUSED, said
    # Above it may be the warning of a batch that has used most of its time.
    assert said.splitlines()[-1].startswith(error.code), said
    loop.check(BATCHES + 1, said)
    another_writes(loop, BATCHES + 2)


@pytest.fixture
def loop(kafka, make_loop):
    """A sink with a short timeout, whose batch 0 is written."""
    return make_loop(kafka, **{"kafka.transaction.timeout.ms": 1_000 * TIMEOUT_S})


@pytest.mark.parametrize(("when", "step", "error"), BEFORE_IT_DECIDES)
def test_frozen_before_it_decides(loop, when, step, error):
    """The brokers end what it has open; another driver then writes the batch and more."""

    def meanwhile():
        time.sleep(TIMEOUT_S + 2)
        assert loop.stage.lingering() == []
        another_writes(loop, BATCHES + 1)

    check_refused(loop, frozen(loop, when, step, meanwhile), error)


@pytest.mark.parametrize(("when", "step", "error"), AFTER_IT_HAS_DECIDED)
def test_frozen_after_it_has_decided(loop, when, step, error):
    """Another driver commits what it decided, in time, and writes more."""
    ended = frozen(loop, when, step, lambda: another_writes(loop, BATCHES + 1))
    check_refused(loop, ended, error)
