"""Task scope: Kafka's timeout ends what is decided. The rows are lost, and the query says so."""

import time
from contextlib import suppress

import pytest

from twophase.errors import StoreUnavailable
from twophase.log.seal import unseal
from twophase.verify.batches import planned
from twophase.verify.verdict import Kind

from .support_trials import RUN_S, said, until

TIMEOUT_S = 15
LOST = "TWOPHASE_COMMITTABLE_LOST"
SINK = {"scope": "task"}

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def until_ended(trial):
    """Wait until the brokers have ended all that the tasks had open."""

    def ended():
        # They are just starting.
        with suppress(StoreUnavailable):
            return not trial.is_open()
        return False

    until(ended, "the broker's timeout")


def brokers_away(trial, kafka):
    """All brokers are killed, and start when the time is over."""
    for node in kafka.nodes:
        node.kill()
    time.sleep(TIMEOUT_S)
    for node in kafka.nodes:
        node.launch()
    until_ended(trial)


def driver_frozen(trial, _):
    """The driver stands still until the brokers have ended what it has open."""
    trial.driver.freeze()
    until_ended(trial)
    trial.driver.thaw()


# Not brokers of 4.3.1 that are away: the one that comes back, and is not registered yet, leaves out
# the ends that are due (KAFKA-20734), and readers wait for ever. `docs/guarantees.md` has it.
@pytest.fixture(
    params=[("4.3.1", driver_frozen), ("3.9.2", driver_frozen), ("3.9.2", brokers_away)],
    ids=lambda each: f"{each[0]}-{each[1].__name__}",
)
def fault(request):
    """A version of the broker, and what takes longer there than the transaction timeout."""
    return request.param


@pytest.fixture
def cluster(fault, private_kafka):
    """A broker of one's own."""
    return private_kafka(version=fault[0])


@pytest.fixture
def trial(cluster, open_trial):
    """A query with a short timeout."""
    short = {"kafka.transaction.timeout.ms": 1_000 * TIMEOUT_S}
    return open_trial(cluster, options=SINK, kafka=short)


@pytest.fixture
def outlast(fault, trial, cluster):
    """A function that lets it happen."""
    return lambda: fault[1](trial, cluster)


def stopped_at(trial, outlast, when, step):
    """Let it outlast the timeout at this step of batch 1; return what the driver then ends with."""
    trial.start_until("there", faults=[[when, step, 1, "wait at there"]])
    assert trial.is_open()
    outlast()
    trial.open("there")
    assert trial.driver.wait(RUN_S) == 1, trial.driver.last_words()
    return said(trial.driver)


def test_before_the_decision_nothing_is_lost(trial, outlast):
    """Expected: the query stops by name, and the batch is written by the next start."""
    words = stopped_at(trial, outlast, "before", "confirm")
    assert "TWOPHASE_INVALID_STATE" in words, words[-3_000:]
    assert LOST not in words
    trial.finish()
    assert (1, "committed") in trial.outcomes()
    trial.check()


def test_after_the_decision_the_loss_is_told(trial, outlast):
    """Expected: every start says what is lost; recorded by the user's choice, the query goes on.

    What is missing in the end are the rows that the record names, and no others.
    """
    words = stopped_at(trial, outlast, "after", "decide")
    assert LOST in words, words[-3_000:]
    again = trial.refused(LOST)
    ends = planned(trial.checkpoint, trial.source.topic)
    rows = sum(ends[1].values()) - sum(ends[0].values())
    assert f"{rows} rows in " in again
    trial.finish(options={**SINK, "on_lost": "record"})
    assert (1, "skipped") in trial.outcomes()
    log = trial.checkpoint / "twophase" / trial.settings["sink_id"]
    records = [unseal(each.read_bytes(), str(each)) for each in log.glob("lost-000000000001-*")]
    verdict = trial.judged()
    assert verdict.count(Kind.LOST) == sum(each["rows"] for each in records) == rows
    assert [each.kind for each in verdict.findings if each.count] == [Kind.LOST]
    assert verdict.not_checked == ()
