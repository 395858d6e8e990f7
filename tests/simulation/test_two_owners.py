"""Races of owners that seeds meet too seldom, played by hand."""

import pytest
from simulation.actor import Actor
from simulation.broker import V1, V2, Broker
from simulation.parts import store_with

from twophase.commit.recovery import LastTransaction
from twophase.errors import Fenced
from twophase.kafka.store import KafkaStore
from twophase.kafka.transactions import Transactions

NEVER_WAS, UNKNOWN = LastTransaction.NEVER_WAS, LastTransaction.UNKNOWN


@pytest.fixture(params=[V1, V2])
def version(request):
    return request.param


@pytest.fixture
def broker(version):
    return Broker(version, 2, 1_000)


@pytest.fixture
def start(broker, version):
    """Start a driver."""

    def begin(store=KafkaStore):
        return Actor(broker, version, store)

    return begin


def opened(actor):
    """An owner with an open transaction."""
    identity, _ = actor.own()
    actor.mark(identity)
    return identity


class Sharing(Transactions):
    """Keeps the identity that a raised epoch was answered with."""

    found = None

    def _init(self, identity, timeout_ms, **how):
        if self.found is None or identity.producer_id >= 0:
            self.found = super()._init(identity, timeout_ms, **how)
        return self.found


def both_reacquire(start, store):
    """An older owner asks while a newer one is between its abort and its InitProducerId."""
    older, newer = start(store), start(store)
    before, _ = older.own()
    newer.begin(newer.store.reacquire, opened(newer), until="init")
    return older, before, newer


@pytest.mark.parametrize("version", [V1], indirect=True)
def test_a_raised_epoch_alone_gives_two_owners_one_identity(start):
    """Version 1: the newer owner's abort looks like a timeout of the older one's transaction."""
    older, before, newer = both_reacquire(start, store_with(Sharing))
    first, _ = older.do(older.store.reacquire, before)
    second, _ = newer.go_on()
    assert first == second


@pytest.mark.parametrize("version", [V1], indirect=True)
def test_no_two_owners_get_one_identity_of_version_1(start):
    """The bare form cuts the newer owner off."""
    older, before, newer = both_reacquire(start, KafkaStore)
    older.do(older.store.reacquire, before)
    with pytest.raises(Fenced):
        newer.go_on()


@pytest.mark.parametrize("version", [V2], indirect=True)
def test_no_two_owners_get_one_identity_of_version_2(start):
    """The older one is fenced."""
    older, before, newer = both_reacquire(start, KafkaStore)
    with pytest.raises(Fenced):
        older.do(older.store.reacquire, before)
    newer.go_on()


class StartingOver(KafkaStore):
    """Begins a re-acquire that was interrupted from the first identity again."""

    def reacquire(self, identity):
        self._claiming = None
        return super().reacquire(identity)


def interrupted_reacquire(start, broker, store):
    """The broker's timeout has raised the epoch; InitProducerId is done, and its asker is gone."""
    broker.init(-1, -1)
    actor = start(store)
    identity = opened(actor)
    broker.expire()
    broker.complete()
    actor.begin(actor.store.reacquire, identity, until="init")
    actor.asked()
    return actor.do, actor.store.reacquire, identity


@pytest.mark.parametrize("version", [V1], indirect=True)
def test_an_interrupted_reacquire_goes_on_where_it_stopped(start, broker):
    """The second call knows which epoch the first one has asked with."""
    do, reacquire, identity = interrupted_reacquire(start, broker, KafkaStore)
    assert do(reacquire, identity)[0].epoch > identity.epoch


@pytest.mark.parametrize("version", [V1], indirect=True)
def test_an_interrupted_reacquire_that_starts_over_is_fenced(start, broker):
    """By nobody but itself."""
    do, reacquire, identity = interrupted_reacquire(start, broker, StartingOver)
    with pytest.raises(Fenced):
        do(reacquire, identity)


def test_what_was_open_when_looked_at_is_no_witness(start, broker):
    """The older owner commits between the look and the taking: nothing shows that it did not."""
    broker.init(-1, -1)
    older, newer = start(), start()
    identity = opened(older)
    newer.look()
    older.commit(identity)
    assert newer.do(newer.store.own)[1] is UNKNOWN


@pytest.mark.parametrize("version", [V1], indirect=True)
def test_a_late_request_opens_again_what_was_committed(start, broker):
    """Version 1: an open transaction, or its abort, says nothing about the commit before it."""
    broker.init(-1, -1)
    older, newer = start(), start()
    identity = opened(older)
    older.commit(identity)
    broker.add_partitions((identity.producer_id, identity.epoch), (0,))
    assert newer.own()[1] is UNKNOWN


def test_a_new_id_never_had_a_transaction(start):
    """The first owner, and each after owners that wrote nothing, however many."""
    for number in range(250):
        identity, last = start().own()
        assert (identity.epoch, last) == (number, NEVER_WAS)


def test_a_first_transaction_that_was_left_open_wrote_nothing(start, broker):
    """A new sink dies between its first marker and the commit of that: it is still a new sink."""
    opened(start())
    assert start().own()[1] is NEVER_WAS
    assert broker.marker is None


def test_a_first_transaction_that_timed_out_wrote_nothing(start, broker):
    """Nor did one that the broker has aborted by then."""
    opened(start())
    broker.expire()
    broker.complete()
    assert start().own()[1] is NEVER_WAS


def lose_the_first_answer(start, store):
    """The broker acts on the first InitProducerId, and its answer gets lost."""
    actor = start(store)
    actor.look()
    actor.begin(actor.store.own, until="init")
    actor.answered(lost=True)
    return actor.go_on()[1]


def test_a_lost_answer_does_not_make_a_new_sink_old(start):
    """Neither for the one that asked nor for the next start."""
    assert lose_the_first_answer(start, KafkaStore) is NEVER_WAS
    assert start().own()[1] is NEVER_WAS


class Repeating(Transactions):
    """Repeats a question that means something else by then."""

    def own(self, transactional_id, *, timeout_ms=None, once=False):
        del once
        return super().own(transactional_id, timeout_ms=timeout_ms)


def test_without_another_look_a_lost_answer_makes_a_new_sink_old(start, broker):
    """The repeat says what was expected before the first one was acted on."""
    broker.init(-1, -1, 59_999)
    assert lose_the_first_answer(start, store_with(Repeating)) is UNKNOWN
    assert start().own()[1] is UNKNOWN


def test_two_start_a_new_sink_at_once(start):
    """Both have seen that there is no id: the second to take it may go on, a third may not."""
    actors = [start() for _ in range(3)]
    for actor in actors:
        actor.look()
    assert [actor.do(actor.store.own)[1] for actor in actors] == [NEVER_WAS, NEVER_WAS, UNKNOWN]


def found_and_write(actor):
    """What a driver of a new sink does after it has taken the id: two commits, the second of rows.

    With a marker already there the first is left out.
    """
    identity, _ = actor.do(actor.store.own)
    if actor.broker.marker is None:
        actor.mark(identity, -1)
        identity = actor.commit(identity) or actor.do(actor.store.reacquire, identity)[0]
    actor.mark(identity)
    actor.commit(identity)


def test_what_a_taker_has_aborted_itself_is_no_witness(start, broker):
    """It hung since it saw a new sink; another has written batch 0 and has more open."""
    first, second = start(), start()
    second.look()
    found_and_write(first)
    opened(first)
    broker.forget_marker()
    assert second.do(second.store.own)[1] is UNKNOWN


@pytest.mark.parametrize("owners", [0, 1, 5])
def test_a_driver_that_hung_since_its_look_does_not_take_the_sink_for_new(owners, start, broker):
    """Another has written batch 0 meanwhile, and somebody has deleted the marker."""
    for _ in range(owners):
        start().own()
    first, second = start(), start()
    first.look()
    second.look()
    found_and_write(first)
    broker.forget_marker()
    assert second.do(second.store.own)[1] is UNKNOWN
    assert start().own()[1] is UNKNOWN, "nor does the next start"


class Unread(KafkaStore):
    """Writes rows under an identity that was taken for a sink without any."""

    def own(self):
        identity = self._take_as_new()
        if identity is None:
            return super().own()
        found = identity.epoch == (0 if self._seen is None else self._seen.epoch + 1)
        return identity, LastTransaction.NEVER_WAS if found else LastTransaction.UNKNOWN


def three_of_a_new_sink(start, broker, store):
    """The first founds it, the second finds that marker and writes, the third has looked before."""
    first, second, third = start(store), start(store), start(store)
    identity, _ = first.own()
    second.look()
    first.mark(identity, -1)
    first.commit(identity)
    second.begin(second.store.own, until=None)
    taken = second.call[0]
    third.look()
    second.mark(taken)
    second.commit(taken)
    broker.forget_marker()
    return third.do(third.store.own)[1]


def test_rows_are_written_under_no_coded_epoch(start, broker):
    """A driver that finds a marker where it expected none takes another identity first."""
    assert three_of_a_new_sink(start, broker, KafkaStore) is UNKNOWN


@pytest.mark.parametrize("version", [V1], indirect=True)
def test_rows_under_a_coded_epoch_are_not_seen(start, broker):
    """Version 1: their commit does not raise the epoch, and the third takes the sink for new."""
    assert three_of_a_new_sink(start, broker, Unread) is NEVER_WAS
