"""Requests between a query's driver and the broker that are lost, or come when it is long dead."""

import pytest

from twophase.verify.proxy import ApiKey

from .support_trials import RUN_S, error_of, until

IMPATIENT = {"kafka.request.timeout.ms": 2_000, "kafka.max.block.ms": 4_000}
AHEAD = ["before", "commit", 1, "wait at commit"]


@pytest.mark.timeout(300)
def test_the_answer_to_a_commit_is_lost(proxy, far):
    """Expected: asked again, answered alike; each batch is there once."""
    trial = far()
    caught = proxy.on(ApiKey.END_TXN, "response").cut(times=3)
    trial.finish()
    assert caught.count == 3
    assert {outcome for _, outcome in trial.outcomes()} == {"committed"}
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_no_answer_to_a_commit_until_the_sink_gives_up_asking(proxy, far):
    """Expected: the marker tells that the batch is committed; it is not written again."""
    trial = far(kafka=IMPATIENT)
    trial.start_until("commit", faults=[AHEAD])
    lost = proxy.on(ApiKey.END_TXN, "response").cut(times=None)
    trial.open("commit")
    until(lambda: len(trial.outcomes()) > 1, "the end of batch 1")
    lost.remove()
    assert trial.driver.wait(RUN_S) == 0, trial.driver.last_words()
    assert lost.count > 0
    assert (1, "committed-before") in trial.outcomes()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_commit_that_arrives_after_its_driver_died(proxy, far):
    """Expected: it commits batch 1 with its marker, so that the next driver skips the batch."""
    trial = far()
    trial.start_until("commit", faults=[AHEAD])
    held = proxy.on(ApiKey.END_TXN).hold()
    trial.open("commit")
    held.wait_caught(RUN_S)
    trial.driver.kill()
    assert trial.is_open()
    assert error_of(held.deliver()) == 0
    trial.finish()
    assert (1, "skipped") in trial.outcomes()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_commit_that_arrives_in_the_next_drivers_transaction(proxy, far):
    """Expected: it is refused, and the next driver's transaction stays open until its own end."""
    trial = far()
    trial.start_until("commit", faults=[AHEAD])
    held = proxy.on(ApiKey.END_TXN).hold()
    trial.open("commit")
    held.wait_caught(RUN_S)
    trial.driver.kill()
    trial.start_until("sent", faults=[["after", "send", 1, "wait at sent"]])
    assert error_of(held.deliver()) != 0
    assert trial.is_open()
    trial.open("sent")
    assert trial.driver.wait(RUN_S) == 0, trial.driver.last_words()
    assert (1, "committed") in trial.outcomes()
    trial.check()


@pytest.mark.long
@pytest.mark.timeout(400)
def test_rows_that_arrive_in_the_next_drivers_transaction(proxy, far):
    """Expected: a Produce of the dead driver adds nothing to the log, then nor later."""
    trial = far(options={"path": "driver"})
    trial.start_until("send", faults=[["before", "send", 1, "wait at send"]])
    held = proxy.on(ApiKey.PRODUCE).hold()
    trial.open("send")
    held.wait_caught(RUN_S)
    trial.driver.kill()
    trial.start_until("sent", faults=[["after", "send", 1, "wait at sent"]])
    before = trial.length()
    held.deliver()
    assert trial.length() == before
    trial.open("sent")
    assert trial.driver.wait(RUN_S) == 0, trial.driver.last_words()
    before = trial.length()
    held.deliver()
    assert trial.length() == before
    trial.check()
