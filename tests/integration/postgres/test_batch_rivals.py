"""Two drivers on one sink of BatchScope: one of them writes, the other is fenced or refused."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psycopg
import pytest
from support.batch_scope import Given, numbered, write

from twophase.commit.effects import Outcome
from twophase.errors import ConfigurationError, Fenced, OwnedByAnother
from twophase.options import Secret
from twophase.postgres import batch_scope
from twophase.postgres.connection import connected
from twophase.postgres.markers import MARKERS, Markers
from twophase.postgres.target import Target


def test_an_old_driver_has_staged(sink):
    """A new one writes the batch; the old one's commit is fenced and writes nothing."""
    new = sink.scope()
    tasks = Given(numbered(1), then=lambda _: write(new, 0, *numbered(1)))
    with pytest.raises(Fenced, match="another driver has taken the sink over"):
        write(sink.scope(), 0, tasks=tasks)
    assert sink.rows() == numbered(1)
    write(new, 1, *numbered(2), first_try=True)
    assert sink.rows() == numbered(1, 2)
    assert sink.stages() == []


def test_an_old_driver_whose_table_is_gone(sink):
    """A new one has dropped it before the old one's tasks run: fenced, and it says so."""
    new = sink.scope()
    tasks = Given(numbered(1), first=lambda _: write(new, 0, *numbered(1)))
    with pytest.raises(Fenced, match="another driver has taken the sink over") as found:
        write(sink.scope(), 0, tasks=tasks)
    assert isinstance(found.value.__cause__, ConfigurationError)
    assert sink.rows() == numbered(1)


def test_an_old_driver_asks_for_the_next_batch(sink):
    """Fenced also where it needs no claim."""
    old, new = sink.scope(), sink.scope()
    write(old, 0, *numbered(1))
    write(new, 0, *numbered(1))
    with pytest.raises(Fenced):
        write(old, 1, *numbered(2), first_try=True)
    write(new, 1, *numbered(2), first_try=True)
    assert sink.rows() == numbered(1, 2)


def test_who_is_fenced_stays_fenced(sink):
    """A call that comes again in the same run takes the sink back from nobody."""
    old, new = sink.scope(), sink.scope()
    tasks = Given(numbered(1), then=lambda _: write(new, 0, *numbered(1)))
    with pytest.raises(Fenced):
        write(old, 0, tasks=tasks)
    before = sink.marker()
    with pytest.raises(Fenced):
        write(old, 0, *numbered(1))
    assert sink.marker() == before
    write(new, 1, *numbered(2), first_try=True)
    assert write(old, 1, *numbered(2), run="a new start").outcome is Outcome.SKIPPED
    assert sink.rows() == numbered(1, 2)


def test_a_marker_deleted_under_a_driver(sink):
    """It is fenced: who deletes the row has a reason."""

    def deletes(_):
        sink.ask(f"DELETE FROM {MARKERS} WHERE name = %s", [sink.name])

    with pytest.raises(Fenced, match="or its marker was deleted"):
        write(sink.scope(), 0, tasks=Given(numbered(1), then=deletes))
    assert sink.rows() == []
    assert sink.marker() is None


def test_an_epoch_does_not_come_again(sink):
    """Also where the row was deleted in between."""
    write(sink.scope(), 0, *numbered(1))
    before = sink.marker()[4]
    sink.ask(f"DELETE FROM {MARKERS} WHERE name = %s", [sink.name])
    write(sink.scope(), 0, *numbered(2))
    assert sink.marker()[4] > before


def careful(idle):
    """The settings of a commit, with another patience for a driver that does nothing."""
    first, *rest = batch_scope._CAREFUL
    assert "idle_in_transaction_session_timeout = '30s'" in first
    return (first.replace("30s", idle), *rest)


def test_a_driver_frozen_with_the_lock(sink):
    """The server ends its transaction, and the next driver gets through."""
    write(sink.scope(), 0, *numbered(1))
    with psycopg.connect(sink.url) as frozen:
        takes = f"SELECT 1 FROM {MARKERS} WHERE name = '{sink.name}' FOR UPDATE"
        began_s = time.monotonic()
        # In one message: the server's patience begins where it waits for the next one.
        frozen.execute(";".join([*careful("1s"), takes]))
        write(sink.scope(), 1, *numbered(2))
        assert 0.9 < time.monotonic() - began_s < 60
        with pytest.raises(psycopg.Error):
            frozen.execute("SELECT 1")
    assert sink.rows() == numbered(1, 2)


def at_the_same_moment(*acts):
    """What came of each: its result or its error."""
    barrier = threading.Barrier(len(acts))

    def run(act):
        barrier.wait(60)
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return error

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def test_two_queries_claim_a_new_sink(make_sink):
    """Exactly one gets it, the other is refused."""
    for _ in range(10):
        sink = make_sink()
        found = at_the_same_moment(
            lambda sink=sink: write(sink.scope(), 0, *numbered(1), owner="a"),
            lambda sink=sink: write(sink.scope(), 0, *numbered(2), owner="b"),
        )
        refusals = [each for each in found if isinstance(each, Exception)]
        assert [type(each) for each in refusals] == [OwnedByAnother]
        won = 0 if refusals[0] is found[1] else 1
        assert found[won].outcome is Outcome.COMMITTED
        assert sink.marker()[0] == "ab"[won]
        assert sink.rows() == numbered(won + 1)


def test_two_drivers_of_one_query_claim_a_sink(make_sink):
    """The batch is there once; who came first may be fenced."""
    for _ in range(10):
        sink = make_sink()
        found = at_the_same_moment(*[lambda sink=sink: write(sink.scope(), 0, *numbered(1))] * 2)
        refusals = [each for each in found if isinstance(each, Exception)]
        assert len(refusals) < 2
        assert all(isinstance(each, Fenced) for each in refusals)
        assert sink.rows() == numbered(1)
        assert sink.stages() == []


def in_thread(act):
    pool = ThreadPoolExecutor(1)
    future = pool.submit(act)
    pool.shutdown(wait=False)
    return future


def test_a_driver_frozen_in_its_commit_wakes_up(sink, monkeypatch):
    """A new one has written the batch meanwhile: fenced, and nothing is doubled."""
    monkeypatch.setattr(batch_scope, "_CAREFUL", careful("4s"))
    has_lock = threading.Event()

    class Frozen(Target):
        def move(self, *args):
            has_lock.set()
            new.result(60)
            super().move(*args)

    def follow():
        assert has_lock.wait(60)
        return write(sink.scope(), 0, *numbered(1))

    new = in_thread(follow)
    with pytest.raises(Fenced):
        write(sink.scope(target=Frozen(sink.table)), 0, *numbered(1))
    assert new.result().outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(1)


def test_two_drivers_make_the_table_of_markers(sink):
    """In a schema that has none yet: all go on."""
    for _ in range(20):
        schema = f"s_{uuid4().hex[:8]}"
        sink.ask(f"CREATE SCHEMA {schema}")

        def make(schema=schema):
            with connected(Secret(sink.url)) as connection:
                Markers(schema, "s").make(connection)

        assert at_the_same_moment(make, make, make) == [None] * 3
