"""Races of two owners that seeds meet too seldom, played by hand."""

import pytest
from simulation.broker import FENCED, V1, V2, Broker
from simulation.driver import Driver
from simulation.history import History

from twophase.commit import effects as do
from twophase.commit import events as ev
from twophase.commit.recovery import LastTransaction
from twophase.kafka.identity import Identity


@pytest.fixture(params=[V1, V2])
def history(request):
    """A history without faults, of which only the broker is used."""
    found = History(0)
    found.healthy = True
    found.version = request.param
    found.broker = Broker(request.param, 2, 1_000)
    return found


def driver_of(history, kind=Driver):
    return kind(history.version, history.rng, history.faults)


def steps(history, generator, until=None):
    """Let a driver go on until it is about to ask for `until`, or to its end; return its event."""
    request = generator.send(None)
    while True:
        if request[0] == until:
            return request
        answer = history.perform(request)
        history.broker.complete()
        try:
            request = generator.send(answer)
        except StopIteration as stop:
            return stop.value


def owned(history, driver):
    steps(history, driver.describe_last(do.DescribeLast()))
    return steps(history, driver.own(do.Own())).identity


def opened(history, driver):
    """An owner with an open transaction."""
    identity = owned(history, driver)
    history.broker.commit_offset(driver.key(identity), "marker")
    return identity


class Sharing(Driver):
    """Keeps the identity that a raised epoch was answered with."""

    def made_unique(self, found):
        yield ("step",)
        return found


def both_reacquire(history, kind):
    """An older owner asks while a newer one is between its abort and its InitProducerId."""
    older, newer = driver_of(history, kind), driver_of(history, kind)
    before = owned(history, older)
    going_on = newer.reacquire(do.Reacquire(opened(history, newer)))
    request = steps(history, going_on, until="init")
    first = steps(history, older.reacquire(do.Reacquire(before)))
    return first, history.execute(request)


@pytest.mark.parametrize("history", [V1], indirect=True)
def test_a_raised_epoch_alone_gives_two_owners_one_identity(history):
    """Version 1: the newer owner's abort looks like a timeout of the older one's transaction."""
    first, second = both_reacquire(history, Sharing)
    assert second[1] == Driver.key(first.identity)


def test_no_two_owners_get_one_identity(history):
    """Version 1: the bare form cuts the newer owner off. Version 2: the older one is fenced."""
    first, second = both_reacquire(history, Driver)
    if history.version is V1:
        assert isinstance(first, ev.Reacquired)
        assert second[0] is FENCED
    else:
        assert isinstance(first, ev.FencedOff)
        assert second[1] is not None


def test_what_was_open_when_looked_at_is_no_witness(history):
    """The older owner commits between the look and the taking: nothing shows that it did not."""
    older, newer = driver_of(history), driver_of(history)
    identity = opened(history, older)
    steps(history, newer.describe_last(do.DescribeLast()))
    steps(history, older.commit(do.Commit(identity)))
    event = steps(history, newer.own(do.Own()))
    assert event.last is LastTransaction.UNKNOWN


@pytest.mark.parametrize("history", [V1], indirect=True)
def test_a_late_request_opens_again_what_was_committed(history):
    """Version 1: an open transaction, or its abort, says nothing about the commit before it."""
    older, newer = driver_of(history), driver_of(history)
    identity = opened(history, older)
    steps(history, older.commit(do.Commit(identity)))
    history.broker.add_partitions(older.key(identity), (0,))
    steps(history, newer.describe_last(do.DescribeLast()))
    assert steps(history, newer.own(do.Own())).last is LastTransaction.UNKNOWN


def test_a_new_id_never_had_a_transaction(history):
    """The first owner, and the one after a first that wrote nothing."""
    for number in range(2):
        driver = driver_of(history)
        steps(history, driver.describe_last(do.DescribeLast()))
        event = steps(history, driver.own(do.Own()))
        assert event == ev.Owned(
            Identity("sink", 1, number, history.version), LastTransaction.NEVER_WAS
        )
