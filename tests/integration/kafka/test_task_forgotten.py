"""Kafka in task scope: rows that are recorded as lost, and whose transactions Kafka has forgotten.

The brokers end a decided transaction by its timeout, a driver records the loss and is killed with
-9 before the batch is done, and the next one comes when `transactional.id.expiration.ms` is over:
Kafka cannot tell any more whether the rows were committed.
"""

import pytest
from support.kafka_loops import KafkaLoop
from support.steps import REFUSED
from support.task_loop import expected
from support.waiting import wait_until

from twophase.embedded import EmbeddedKafka
from twophase.errors import CommitOutcomeUnknown, CommittableLost
from twophase.kafka.admin import TransactionState
from twophase.log.decisions import DecisionLog
from twophase.testing import LocalFolder

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

# As many seconds has a driver to start and to record the loss, on a busy machine.
FORGETS_S = 20
BATCHES = 3
DECIDES = "create batch-000000000001-0001"
LAST_RECORD = "create lost-000000000001-00001"


@pytest.fixture(scope="module", params=["4.3.1", "3.9.2"])
def forgetful(request):
    """Brokers that forget ids which are at rest."""
    properties = {
        "transactional.id.expiration.ms": 1_000 * FORGETS_S,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 200,
    }
    with EmbeddedKafka(version=request.param, properties=properties) as cluster:
        yield cluster


@pytest.fixture
def make_dead(forgetful, make_topic, tmp_path):
    """Make a sink whose driver died in batch 1; what was not committed by then has timed out."""

    def make(step):
        topic, options = make_topic(forgetful), {"kafka.transaction.timeout.ms": 1_000}
        found = KafkaLoop(forgetful, topic, tmp_path / "loop", options)
        code, said = found.run(1)
        assert code == 0, said
        code, said = found.run(BATCHES, at=step, after=True)
        assert code == -9, said
        ended = {TransactionState.COMPLETE_ABORT, TransactionState.COMPLETE_COMMIT}
        wait_until(lambda: ended.issuperset(states(found)))
        return found

    return make


def states(loop):
    """What the coordinator says of each committable of the decision that is not done."""
    undone = DecisionLog(LocalFolder(loop.stage.folder)).look().undone
    seen = [loop.stage.state(each.committable) for each in undone.prepared]
    return [None if each is None else each.state for each in seen]


def wait_until_forgotten(loop):
    """Return once Kafka knows none of the decision's transactions."""
    wait_until(lambda: states(loop) == [None, None], FORGETS_S + 60)


@pytest.mark.parametrize(
    ("step", "lost"), [(DECIDES, [2, 3]), ("commit", [3])], ids=["all", "one of two"]
)
def test_what_is_recorded_as_lost_is_not_asked_for_again(make_dead, step, lost):
    """Who wants to be stopped by a loss is told of the loss; who does not, goes on.

    Nor is what was committed beside it. What later drivers write is there once, nothing is open.
    """
    loop = make_dead(step)
    code, said = loop.run(BATCHES, at=LAST_RECORD, after=True, on_lost="record")
    assert code == -9, said
    wait_until_forgotten(loop)
    code, said = loop.run(BATCHES)
    assert code == REFUSED, said
    told = f"{CommittableLost.code}: {len(lost)} rows in {len(lost)} of 2 transactions"
    assert said.splitlines()[-1].startswith(told), said
    assert "Kafka has aborted it" in said
    assert "recorded by an earlier start" in said
    code, said = loop.run(BATCHES, on_lost="record")
    assert code == 0, said
    assert loop.stage.values() == sorted({*expected(BATCHES)} - {*lost})
    assert len(list(loop.stage.folder.glob("lost-*"))) == len(lost)
    code, said = loop.run(BATCHES + 1)
    assert code == 0, said
    assert loop.stage.values() == sorted({*expected(BATCHES + 1)} - {*lost})
    assert loop.stage.lingering() == []


def test_what_is_not_recorded_stays_unknown(make_dead):
    """Without a record nobody knows what Kafka has forgotten: it is no loss, nor success."""
    loop = make_dead(DECIDES)
    wait_until_forgotten(loop)
    for on_lost in ("record", "fail"):
        code, said = loop.run(BATCHES, on_lost=on_lost)
        assert code == REFUSED, said
        assert said.splitlines()[-1].startswith(CommitOutcomeUnknown.code), said
    assert list(loop.stage.folder.glob("lost-*")) == []
    assert loop.stage.values() == expected(1)
