"""Task scope: requests that are lost, or come when the driver or attempt that sent them is dead."""

import re
import signal
from pathlib import Path

import pytest

from twophase.kafka.admin import describe_transaction, list_transactions
from twophase.verify.processes import descendants
from twophase.verify.proxy import ApiKey
from twophase.verify.reader import ENDING

from .support_trials import RUN_S, error_of, until

TASK = {"scope": "task"}
IMPATIENT = {"kafka.request.timeout.ms": 2_000, "kafka.max.block.ms": 4_000}
# All of batch 1 is in the decision log, and nothing of it is committed.
DECIDED = ["after", "decide", 1, "wait at decided"]

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


def id_of(frame, trial):
    """The transactional id that a caught request names."""
    prefix = re.escape(f"{trial.transactional_id}//".encode())
    return re.search(prefix + rb"[0-9/.]+", frame.payload)[0].decode()


def settled(trial):
    """The length of the topic's log, once no transaction is being ended any more."""
    wire, prefix = trial.source.wire, trial.transactional_id
    until(lambda: not list_transactions(wire, prefix=prefix, states=ENDING), "the ends")
    return trial.length()


def test_the_answers_to_commits_are_lost(proxy, far):
    """Expected: asked again, answered alike; each batch is there once."""
    trial = far(options=TASK)
    trial.start_until("decided", faults=[DECIDED])
    caught = proxy.on(ApiKey.END_TXN, "response").cut(times=3)
    trial.open("decided")
    assert trial.driver.wait(RUN_S) == 0, trial.driver.last_words()
    assert caught.count == 3
    assert {outcome for _, outcome in trial.outcomes()} == {"committed"}
    trial.check()


def test_no_answer_to_a_commit_until_the_sink_gives_up_asking(proxy, far):
    """Expected: the coordinator's own state tells that it is committed, and the query goes on."""
    trial = far(options=TASK, kafka=IMPATIENT)
    trial.start_until("decided", faults=[DECIDED])
    lost = proxy.on(ApiKey.END_TXN, "response").cut(times=None)
    trial.open("decided")
    until(lambda: len(trial.outcomes()) > 1, "the end of batch 1")
    lost.remove()
    assert trial.driver.wait(RUN_S) == 0, trial.driver.last_words()
    assert lost.count > 0
    assert trial.outcomes()[1] == (1, "committed")
    trial.check()


def test_a_commit_that_arrives_after_its_driver_died(proxy, far):
    """Expected: it commits its task's rows; the next driver commits the others, and skips."""
    trial = far(options=TASK)
    trial.start_until("decided", faults=[DECIDED])
    assert len(trial.open_ids()) > 1
    held = proxy.on(ApiKey.END_TXN).hold()
    trial.open("decided")
    name = id_of(held.wait_caught(RUN_S), trial)
    trial.driver.kill()
    assert name in trial.open_ids()
    assert error_of(held.deliver()) == 0
    assert name not in trial.open_ids()
    trial.finish()
    assert (1, "skipped") in trial.outcomes()
    trial.check()


def test_a_commit_that_arrives_when_the_next_driver_is_at_work(proxy, far):
    """Expected: the batch is committed already; nothing of the next one changes."""
    trial = far(options=TASK)
    trial.start_until("decided", faults=[DECIDED])
    held = proxy.on(ApiKey.END_TXN).hold()
    trial.open("decided")
    name = id_of(held.wait_caught(RUN_S), trial)
    trial.driver.kill()
    trial.start_until("prepared", faults=[["after", "confirm", 2, "wait at prepared"]])
    before = settled(trial), trial.open_ids(), describe_transaction(trial.source.wire, name)
    assert before[1]
    held.deliver()
    assert before == (
        settled(trial),
        trial.open_ids(),
        describe_transaction(trial.source.wire, name),
    )
    trial.open("prepared")
    assert trial.driver.wait(RUN_S) == 0, trial.driver.last_words()
    assert {(1, "skipped"), (2, "committed")} <= set(trial.outcomes())
    trial.check()


def test_an_abort_that_arrives_when_the_next_driver_is_at_work(proxy, far):
    """Expected: it was for a try of the batch that is over; the next one loses nothing."""
    trial = far(options=TASK)
    faults = [["before", "confirm", 1, "wait at prepared"], ["after", "confirm", 1, "raise"]]
    trial.start_until("prepared", faults=faults)
    held = proxy.on(ApiKey.END_TXN).hold()
    trial.open("prepared")
    held.wait_caught(RUN_S)
    trial.driver.kill()
    assert trial.open_ids()
    trial.start_until("again", faults=[["after", "confirm", 1, "wait at again"]])
    before = settled(trial), trial.open_ids()
    assert before[1]
    held.deliver()
    assert before == (settled(trial), trial.open_ids())
    trial.open("again")
    assert trial.driver.wait(RUN_S) == 0, trial.driver.last_words()
    assert (1, "committed") in trial.outcomes()
    trial.check()


# What a task asks for, and under which version that begins its transaction at the broker.
BEGINS = {ApiKey.PRODUCE: "4.3.1", ApiKey.ADD_PARTITIONS_TO_TXN: "3.9.2"}


@pytest.fixture(params=BEGINS, ids=lambda api: api.name.lower())
def api(request, broker):
    """A request of a task that comes late."""
    if request.param is ApiKey.ADD_PARTITIONS_TO_TXN and broker.version != "3.9.2":
        pytest.skip("version 2 has no such request")
    return request.param


def test_a_dead_drivers_request_arrives_in_the_next_drivers_batch(proxy, far, broker, api):
    """Expected: at most it begins a transaction that nobody commits, and this batch's end ends it.

    Rows that come once that is done are refused.
    """
    trial = far(options=TASK)
    trial.start_until("opened", faults=[["after", "open", 1, "wait at opened"]])
    held = proxy.on(api).hold()
    trial.open("opened")
    name = id_of(held.wait_caught(RUN_S), trial)
    trial.driver.kill()
    trial.start_until("prepared", faults=[["after", "confirm", 1, "wait at prepared"]])
    before = trial.open_ids()
    assert before
    assert name not in before
    held.deliver()
    begun = {name} if BEGINS[api] == broker.version else set()
    assert set(trial.open_ids()) == {*before, *begun}
    trial.open("prepared")
    assert trial.driver.wait(RUN_S) == 0, trial.driver.last_words()
    assert (1, "committed") in trial.outcomes()
    length = settled(trial)
    assert trial.open_ids() == []
    # Partitions are added once, and the ask for it comes once: version 1 would take it again.
    if api is ApiKey.PRODUCE:
        held.deliver()
        assert (settled(trial), trial.open_ids()) == (length, [])
    trial.check()


def test_a_dead_drivers_request_arrives_when_no_driver_runs(proxy, far, broker, api):
    """Expected: readers wait behind what it begins until the next batch is written; then as above.

    Nobody is there to end it: the query has written all that there is.
    """
    trial = far(options=TASK, rows=1_200, fill=600)
    trial.start_until("opened", faults=[["after", "open", 1, "wait at opened"]])
    held = proxy.on(api).hold()
    trial.open("opened")
    name = id_of(held.wait_caught(RUN_S), trial)
    trial.driver.kill()
    trial.finish()
    assert trial.open_ids() == []
    held.deliver()
    assert trial.open_ids() == ([name] if BEGINS[api] == broker.version else [])
    trial.source.fill(600)
    trial.finish()
    assert trial.open_ids() == []
    trial.check()


def kill_workers(driver):
    """Kill the Python processes that run the tasks, with -9; what forks them stays."""
    found = [each for each in descendants(driver.pid) if is_worker(each.pid)]
    assert found
    for each in found:
        each.send(signal.SIGKILL)


def is_worker(pid):
    """Whether Spark's daemon has forked it."""
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        commands = [Path(f"/proc/{each}/cmdline").read_bytes() for each in (pid, parent)]
    except OSError:
        return False
    return all(b"pyspark.daemon" in each for each in commands)


def test_a_dead_attempts_rows_arrive_beside_its_successors(proxy, far):
    """Expected: they are in a transaction of their own that no decision names; later refused.

    The worker dies with its rows on the way, and Spark runs the task again in the same batch.
    """
    trial = far(options=TASK, master="local[2,4]")
    gates = [("open", 1, "opened"), ("confirm", 1, "prepared"), ("confirm", 2, "next")]
    faults = [["after", step, batch, f"wait at {gate}"] for step, batch, gate in gates]
    trial.start_until("opened", faults=faults)
    held = proxy.on(ApiKey.PRODUCE).hold()
    trial.open("opened")
    name = id_of(held.wait_caught(RUN_S), trial)
    kill_workers(trial.driver)
    trial.until_at("prepared")
    others = set(trial.open_ids()) - {name}
    assert others
    held.deliver()
    assert set(trial.open_ids()) == {*others, name}
    trial.open("prepared")
    trial.until_at("next")
    before = settled(trial), trial.open_ids()
    held.deliver()
    assert before == (settled(trial), trial.open_ids())
    trial.open("next")
    assert trial.driver.wait(RUN_S) == 0, trial.driver.last_words()
    # No driver was started again.
    assert trial.outcomes() == [(batch, "committed") for batch in range(trial.batches_planned())]
    trial.check()
