"""Requests and answers that are lost, late or doubled on their way, on both versions."""

import threading

import pytest
from support.readers import values
from support.rows import blocks, named
from support.writing import write

from twophase.errors import CommitOutcomeUnknown, EpochStale
from twophase.kafka.admin import TransactionState, describe_transaction
from twophase.kafka.identity import TopicPartition, TransactionVersion
from twophase.kafka.offsets import CommittedOffset, read_offsets, write_offsets
from twophase.kafka.transactions import Transactions
from twophase.verify.proxy import ApiKey, KafkaProxy


@pytest.fixture
def proxy(broker):
    """Everything that bootstraps here goes through the proxy."""
    with KafkaProxy(broker.proxied) as running:
        yield running


@pytest.fixture
def far(proxy, connect):
    """A wire through the proxy, with waits short enough for a test."""
    return connect(proxy.bootstrap_servers, request_timeout_ms=1_000, max_block_ms=10_000)


@pytest.fixture
def topic(broker, make_topic):
    return make_topic(broker, partitions=2)


@pytest.fixture
def owned(far, transactional_id):
    return Transactions(far).own(transactional_id)


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("act", ["drop", "cut"])
def test_a_lost_produce_is_written_once(act, direction, proxy, far, broker, owned, topic):
    """Whether the request or its answer is lost, every row is there once and in order."""
    caught = getattr(proxy.on(ApiKey.PRODUCE, direction), act)(times=2)
    parts = [block for part in range(12) for block in blocks(topic, named(f"{part:02d}", 50))]
    (done,) = write(far, owned, parts)
    assert caught.count == 2
    assert done.records == 600
    Transactions(far).commit(owned)
    expected = [value for part in range(12) for value in named(f"{part:02d}", 50)]
    assert values(broker.bootstrap_servers, topic) == expected


def test_a_doubled_produce_is_written_once(proxy, far, broker, owned, topic):
    """The broker recognises the second copy by its sequence number."""
    proxy.on(ApiKey.PRODUCE, "request").duplicate(times=None)
    write(far, owned, [b for part in range(6) for b in blocks(topic, named(str(part), 5))])
    Transactions(far).commit(owned)
    assert len(values(broker.bootstrap_servers, topic)) == 30


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("act", ["drop", "cut"])
def test_a_lost_end_is_asked_again(act, direction, commit, proxy, far, broker, owned, topic):
    """Lost before or after it took effect: asked again, the answer is the same, and it holds."""
    write(far, owned, blocks(topic, named("row", 3)))
    caught = getattr(proxy.on(ApiKey.END_TXN, direction), act)()
    transactions = Transactions(far)
    following = (transactions.commit if commit else transactions.abort)(owned)
    assert caught.count == 1
    following = following or transactions.reacquire(owned)
    write(far, following, blocks(topic, named("next", 1)))
    transactions.commit(following)
    expected = named("row", 3) if commit else []
    assert values(broker.bootstrap_servers, topic) == expected + named("next", 1)


def test_an_end_without_an_answer_is_unknown_and_never_success(
    proxy, broker, connect, wire, transactional_id, topic
):
    """All answers lost: CommitOutcomeUnknown, although the broker has committed."""
    far = connect(proxy.bootstrap_servers, request_timeout_ms=1_000, max_block_ms=3_000)
    owned = Transactions(wire).own(transactional_id)
    write(wire, owned, blocks(topic, named("row", 3)))
    proxy.on(ApiKey.END_TXN, "response").cut(times=None)
    with pytest.raises(CommitOutcomeUnknown) as caught:
        Transactions(far).commit(owned)
    assert caught.value.ids["transactional_id"] == transactional_id
    assert values(broker.bootstrap_servers, topic) == named("row", 3)


def test_doubt_outlives_the_call(proxy, broker, connect, wire, transactional_id, topic):
    """The commit took effect, its answers were lost, a rival came, and it is asked for again."""
    far = connect(proxy.bootstrap_servers, request_timeout_ms=1_000, max_block_ms=3_000)
    owned = Transactions(wire).own(transactional_id)
    write(wire, owned, blocks(topic, named("row", 3)))
    proxy.on(ApiKey.END_TXN, "response").cut(times=None)
    with pytest.raises(CommitOutcomeUnknown):
        Transactions(far).commit(owned)
    Transactions(wire).own(transactional_id)
    proxy.clear()
    with pytest.raises(CommitOutcomeUnknown):
        Transactions(far).commit(owned, asked_before=True)
    with pytest.raises(EpochStale):
        Transactions(wire).commit(owned)
    assert values(broker.bootstrap_servers, topic) == named("row", 3)


def test_a_fence_after_a_lost_answer_is_unknown_and_not_a_refusal(
    proxy, far, broker, connect, wire, owned, topic
):
    """The commit took effect, its answer was lost, a rival came: only the marker can tell now."""
    write(far, owned, blocks(topic, named("row", 3)))
    # No clock asks again before the rival has come: the answer is lost when all is cut.
    patient = connect(proxy.bootstrap_servers)
    held = proxy.on(ApiKey.END_TXN, "response").hold()
    outcome = []

    def commit():
        try:
            outcome.append(Transactions(patient).commit(owned))
        except CommitOutcomeUnknown as error:
            outcome.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    held.wait_caught(60)
    Transactions(wire).own(owned.transactional_id)
    proxy.cut_all()
    thread.join(60)
    assert isinstance(outcome[0], CommitOutcomeUnknown)
    assert values(broker.bootstrap_servers, topic) == named("row", 3)


def test_a_late_produce_joins_no_other_transaction(proxy, far, broker, owned, topic):
    """A copy of an old Produce, delivered after the next transaction began, is refused."""
    caught = proxy.on(ApiKey.PRODUCE, "request").capture()
    write(far, owned, blocks(topic, named("first", 3)))
    transactions = Transactions(far)
    following = transactions.commit(owned) or transactions.reacquire(owned)
    write(far, following, blocks(topic, named("second", 3), partition=1))
    caught.deliver()
    transactions.commit(following)
    assert values(broker.bootstrap_servers, topic) == named("first", 3) + named("second", 3)
    assert len(values(broker.bootstrap_servers, topic, committed=False)) == 6


@pytest.mark.parametrize("commit", [True, False])
def test_a_late_end_ends_no_other_transaction(commit, proxy, far, broker, wire, owned, topic):
    """A copy of an old EndTxn, delivered into the next transaction, leaves it open."""
    caught = proxy.on(ApiKey.END_TXN, "request").capture()
    write(far, owned, blocks(topic, named("first", 3)))
    transactions = Transactions(far)
    ended = (transactions.commit if commit else transactions.abort)(owned)
    following = ended or transactions.reacquire(owned)
    write(far, following, blocks(topic, named("second", 3)))
    caught.deliver()
    seen = describe_transaction(wire, owned.transactional_id)
    assert (seen.state, seen.epoch) == (TransactionState.ONGOING, following.epoch)
    transactions.commit(following)
    expected = named("first", 3) if commit else []
    assert values(broker.bootstrap_servers, topic) == expected + named("second", 3)


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize("broker", ["kafka39"], indirect=True)
def test_without_a_new_epoch_a_late_end_ends_the_next_transaction(proxy, far, wire, owned, topic):
    """Why version 1 takes a new epoch for each transaction: a late abort would drop the next."""
    transactions = Transactions(far)
    caught = proxy.on(ApiKey.END_TXN, "request").capture()
    write(far, owned, blocks(topic, named("first", 1)))
    transactions.abort(owned)
    # The epoch of the transaction that has ended is used again, as the Java client of 3.9 does.
    transactions.add_partitions(owned, [TopicPartition(topic, 0)])
    assert describe_transaction(wire, owned.transactional_id).state is TransactionState.ONGOING
    caught.deliver()
    seen = describe_transaction(wire, owned.transactional_id)
    assert seen.state in {TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT}


@pytest.mark.parametrize(
    "api",
    [
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.FIND_COORDINATOR,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
    ],
)
def test_any_other_answer_that_is_lost_is_asked_for_again(
    api, proxy, far, broker, transactional_id, topic
):
    """Each request of a whole transaction loses its first answer; rows and marker are right."""
    caught = proxy.on(api, "response").cut()
    here, transactions = TopicPartition(topic, 0), Transactions(far)
    identity = transactions.reacquire(transactions.own(transactional_id))
    write(far, identity, blocks(topic, named("row", 3)))
    write_offsets(far, identity, transactional_id, {here: CommittedOffset(3, "batch 0")})
    transactions.commit(identity)
    assert read_offsets(far, transactional_id, [here]) == {here: CommittedOffset(3, "batch 0")}
    assert values(broker.bootstrap_servers, topic) == named("row", 3)
    spoken = identity.version is TransactionVersion.V1 or api not in {
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
    }
    assert caught.count == (1 if spoken else 0)
