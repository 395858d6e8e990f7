"""The simulated broker answers as real ones were seen to: docs/design.md, section 8."""

import pytest
from simulation.broker import (
    CONCURRENT,
    DISORDER,
    FENCED,
    OK,
    STALE,
    STATE,
    V1,
    V2,
    Broker,
    S,
)

BLOCK = ((1,), ("query", 0, "0-1"))
PARTITION = 0


def opened(version, epoch_max=100):
    """A broker with an open transaction of one block, and its identity."""
    broker = Broker(version, 1, epoch_max)
    _, identity, _ = broker.init(-1, -1)
    write(broker, identity)
    return broker, identity


def write(broker, identity, sequence=0):
    if broker.version is V1:
        assert broker.add_partitions(identity, (PARTITION,)) is OK
    assert broker.produce(identity, PARTITION, sequence, BLOCK) is OK


def end(broker, identity, *, commit=True, version=None):
    answer = broker.end(identity, version or broker.version, commit=commit)
    broker.complete()
    return answer


def ended(version, *, commit=True):
    broker, identity = opened(version)
    end(broker, identity, commit=commit)
    return broker, identity


def fenced(broker):
    """A rival takes the id."""
    broker.init(-1, -1)
    broker.complete()
    broker.init(-1, -1)


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_may_be_repeated_and_not_turned_round(version, commit):
    """The same again is done, with the same answer; the opposite is refused."""
    broker, identity = opened(version)
    following = (identity[0], identity[1] + 1) if version is V2 else None
    assert end(broker, identity, commit=commit) == (OK, following)
    assert end(broker, identity, commit=commit) == (OK, following)
    assert end(broker, identity, commit=not commit) == (STATE, None)


@pytest.mark.parametrize(
    ("version", "commit", "code"), [(V1, True, STATE), (V1, False, STATE), (V2, True, STATE)]
)
def test_nothing_was_written(version, commit, code):
    """There is nothing to end."""
    broker = Broker(version, 1, 100)
    _, identity, _ = broker.init(-1, -1)
    assert end(broker, identity, commit=commit) == (code, None)


def test_nothing_was_written_and_version_2_aborts():
    """An abort of nothing raises the epoch."""
    broker = Broker(V2, 1, 100)
    _, identity, _ = broker.init(-1, -1)
    assert end(broker, identity, commit=False) == (OK, (identity[0], identity[1] + 1))


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("other", [(0, -1), (0, 1), (1, 0)])
def test_another_epoch_or_producer_id_is_fenced(version, other):
    """Only the current identity ends its transaction."""
    broker, (producer_id, epoch) = opened(version)
    assert end(broker, (producer_id + other[0], epoch + other[1])) == (FENCED, None)


@pytest.mark.parametrize(("version", "code"), [(V1, FENCED), (V2, STATE)])
def test_aborted_by_the_timeout(version, code):
    """The two versions answer differently, and neither as after a commit."""
    broker, identity = opened(version)
    broker.expire()
    broker.complete()
    assert end(broker, identity) == (code, None)


@pytest.mark.parametrize("version", [V1, V2])
def test_fenced_by_a_rival(version):
    """End and Produce of the older owner are refused, and so is its claim."""
    broker, identity = opened(version)
    fenced(broker)
    assert end(broker, identity) == (FENCED, None)
    assert broker.produce(identity, PARTITION, 1, BLOCK) is STALE
    assert broker.init(*identity)[0] is FENCED
    assert [entry.state for entry in broker.logs[PARTITION]] == ["aborted"]


def test_ended_by_one_version_and_asked_by_the_other():
    """It looks like a rival, or like a transaction that cannot go on."""
    broker, identity = opened(V2)
    end(broker, identity)
    assert end(broker, identity, version=V1) == (FENCED, None)
    broker, identity = opened(V1)
    end(broker, identity)
    assert end(broker, identity, version=V2) == (STATE, None)


@pytest.mark.parametrize("version", [V1, V2])
def test_until_the_end_is_written_out_all_is_concurrent(version):
    """Most requests have to come again."""
    broker, identity = opened(version)
    broker.end(identity, version, commit=True)
    assert broker.init(-1, -1)[0] is CONCURRENT
    assert broker.end(identity, version, commit=True)[0] is CONCURRENT
    broker.complete()
    assert broker.init(-1, -1)[0] is OK


@pytest.mark.parametrize("version", [V1, V2])
def test_a_claim_is_answered_again_where_its_answer_was_lost(version):
    """Asked with the epoch before, the current one is given again; not after a rival."""
    broker, identity = ended(version)
    assert broker.init(*identity) == broker.init(*identity)
    broker.init(-1, -1)
    assert broker.init(*identity)[0] is FENCED


def test_after_the_timeout_version_2_lets_its_owner_go_on():
    """Version 1, as Kafka 3.9 has it, wants the raised epoch."""
    for version, raised in ((V2, 0), (V1, 1)):
        broker, (producer_id, epoch) = opened(version)
        broker.expire()
        broker.complete()
        assert broker.init(producer_id, epoch)[0] is (OK if version is V2 else FENCED)
        assert broker.init(producer_id, epoch + raised)[0] is OK


@pytest.mark.parametrize("version", [V1, V2])
def test_a_claim_aborts_what_is_open_before_it_compares(version):
    """Why an owner looks first: the rival loses its transaction, and the claim is refused."""
    broker, identity = ended(version)
    broker.init(-1, -1)
    write(broker, broker.current)
    assert broker.init(*identity)[0] is CONCURRENT
    broker.complete()
    assert broker.state is S.COMPLETE_ABORT
    assert broker.init(*identity)[0] is FENCED


def test_sequences():
    """A repeat is acknowledged and not written, a gap refused."""
    broker, identity = opened(V2)
    assert broker.produce(identity, PARTITION, 0, BLOCK) is OK
    assert broker.produce(identity, PARTITION, 2, BLOCK) is DISORDER
    assert len(broker.logs[PARTITION]) == 1


def test_a_late_produce_of_an_ended_transaction():
    """Version 1 refuses it by verification, version 2 by its epoch."""
    for version, code in ((V1, STATE), (V2, STALE)):
        broker, identity = ended(version)
        assert broker.produce(identity, PARTITION, 1, BLOCK) is code


def test_the_producer_id_changes_when_its_epochs_run_out():
    """Both versions go on with a new one, from epoch 0."""
    broker, identity = opened(V2, epoch_max=1)
    assert end(broker, identity) == (OK, (identity[0] + 1, 0))
    broker, identity = opened(V1, epoch_max=1)
    end(broker, identity)
    assert broker.init(*identity)[1] == (identity[0] + 1, 0)


def test_a_deleted_group_loses_the_marker_of_the_open_transaction_too():
    """The data then commits without its marker."""
    broker, identity = opened(V2)
    broker.commit_offset(identity, "marker")
    broker.forget_marker()
    end(broker, identity)
    assert (broker.marker, broker.logs[PARTITION][0].state) == (None, "committed")
