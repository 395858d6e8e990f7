"""Lost answers, lost commits, lost rows and killed servers under BatchScope: each row once."""

import os
import socket
from contextlib import contextmanager

import psycopg
import pytest
from support.batch_scope import Given, numbered, write

from twophase.clock import Clock
from twophase.commit.effects import Outcome
from twophase.embedded.postgres import EmbeddedPostgres
from twophase.errors import CommitOutcomeUnknown, Fenced, MarkerMissing, StoreUnavailable
from twophase.postgres.batch_scope import BatchScope
from twophase.postgres.markers import MARKERS


@contextmanager
def breaking(patch, *, arrives):
    """Let the next COMMIT break its connection, once it was armed; yield what arms it."""
    original = psycopg.Connection._exec_command
    armed = []

    def sent(self, command, *args, **more):
        if command != b"COMMIT" or not armed:
            return (yield from original(self, command, *args, **more))
        armed.clear()
        if arrives:
            yield from original(self, command, *args, **more)
        with socket.socket(fileno=os.dup(self.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)
        raise psycopg.OperationalError("the connection broke")

    patch.setattr(psycopg.Connection, "_exec_command", sent)
    yield lambda _: armed.append(True)
    assert not armed


def test_the_answer_of_a_commit_is_lost(sink, monkeypatch):
    """The marker tells that it was done; the next batch follows."""
    scope = sink.scope()
    with breaking(monkeypatch, arrives=True) as arm:
        ended = write(scope, 0, tasks=Given(numbered(1, 2), then=arm))
    assert (ended.outcome, ended.rows) == (Outcome.COMMITTED_BEFORE, 2)
    assert write(scope, 1, *numbered(3), first_try=True).outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(1, 2, 3)
    assert sink.stages() == []


def test_a_commit_is_lost_on_its_way(sink, monkeypatch):
    """The marker tells that it was not done; a restart writes the batch once."""
    with (
        breaking(monkeypatch, arrives=False) as arm,
        pytest.raises(StoreUnavailable, match="the connection broke"),
    ):
        write(sink.scope(), 0, tasks=Given(numbered(1), then=arm))
    assert sink.rows() == []
    assert sink.marker()[1] == -1
    assert write(sink.scope(), 0, *numbered(1)).outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(1)


def test_the_answer_is_lost_and_another_driver_comes(sink, monkeypatch):
    """It is fenced: which batch is there is the other one's to know."""
    with breaking(monkeypatch, arrives=True) as arm:

        def follow(_):
            # By now the batch is written, and nobody has answered.
            assert write(sink.scope(), 0, *numbered(1)).outcome is Outcome.SKIPPED

        settle = BatchScope._settle

        def late(self, *args):
            follow(None)
            settle(self, *args)

        monkeypatch.setattr(BatchScope, "_settle", late)
        with pytest.raises(Fenced):
            write(sink.scope(), 0, tasks=Given(numbered(1), then=arm))
    assert sink.rows() == numbered(1)


def test_staged_rows_are_gone(sink):
    """They are counted before they are believed; a restart writes them once."""
    tasks = Given(
        numbered(1, 2), numbered(3), then=lambda stage: sink.ask(f"TRUNCATE {stage.name}")
    )
    with pytest.raises(StoreUnavailable, match="0 of 3 rows are in the staging table"):
        write(sink.scope(), 0, tasks=tasks)
    assert sink.rows() == []
    assert sink.marker()[1] == -1
    write(sink.scope(), 0, *numbered(1, 2, 3))
    assert sink.rows() == numbered(1, 2, 3)
    assert sink.stages() == []


def test_some_staged_rows_are_gone(sink):
    """The move has brought the others, and takes them back."""

    def lose(stage):
        sink.ask(f"DELETE FROM {stage.name} WHERE id = 2")

    with pytest.raises(StoreUnavailable, match="1 of 2 rows are in the staging table"):
        write(sink.scope(), 0, tasks=Given(numbered(1, 2), then=lose))
    assert sink.rows() == []
    assert sink.marker()[1] == -1


@pytest.fixture
def server():
    """A server that the test may kill."""
    with EmbeddedPostgres() as found:
        yield found


def test_the_server_is_killed_before_the_commit(make_sink, server):
    """Staged rows do not live through it, and the driver says so; a restart writes them once."""
    sink = make_sink(url=server.url)

    def kill(_):
        server.kill()
        server.start()

    with pytest.raises(StoreUnavailable, match=r"0 of 2 rows .* the server was restarted"):
        write(sink.scope(), 0, tasks=Given(numbered(1, 2), then=kill))
    assert sink.rows() == []
    assert write(sink.scope(), 0, *numbered(1, 2)).outcome is Outcome.COMMITTED
    server.kill()
    server.start()
    assert sink.rows() == numbered(1, 2)
    assert write(sink.scope(), 0, *numbered(1, 2)).outcome is Outcome.SKIPPED
    assert sink.stages() == []


class Hurried(Clock):
    """A clock on which waiting costs nothing."""

    def __init__(self):
        self.slept_s = 0.0

    def now_s(self):
        return self.slept_s

    def sleep(self, seconds):
        self.slept_s += 10 * seconds


def test_the_server_does_not_come_back(make_sink, server):
    """The outcome is unknown, and the next start knows it."""
    sink = make_sink(url=server.url)
    with pytest.raises(CommitOutcomeUnknown, match="whether it is written is in its marker"):
        write(
            sink.scope(clock=Hurried()),
            0,
            tasks=Given(numbered(1), then=lambda _: server.kill()),
        )
    with pytest.raises(StoreUnavailable, match="PostgreSQL does not answer"):
        write(sink.scope(), 0, *numbered(1))
    server.start()
    assert write(sink.scope(), 0, *numbered(1)).outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(1)


def test_a_lazy_server_is_killed_before_the_commit(make_sink):
    """The staging table itself may be gone: told as what it is, and a restart writes once."""
    with EmbeddedPostgres(wal_writer_delay="10s", synchronous_commit="off") as server:
        sink = make_sink(url=server.url)

        def kill(_):
            server.kill()
            server.start()

        with pytest.raises(StoreUnavailable):
            write(sink.scope(), 0, tasks=Given(numbered(1, 2), then=kill))
        assert write(sink.scope(), 0, *numbered(1, 2)).outcome is Outcome.COMMITTED
        assert sink.rows() == numbered(1, 2)


def test_a_server_that_has_forgotten(sink):
    """As after a fail-over to a replica that was behind: nothing is written past the gap."""
    scope = sink.scope()
    for number in range(3):
        write(scope, number, *numbered(number), first_try=True)
    sink.ask(f"UPDATE {MARKERS} SET batch = 1 WHERE name = %s", [sink.name])
    with pytest.raises(MarkerMissing, match=r"has written batch 2 and .* batch 1 was the last"):
        write(scope, 3, *numbered(3), first_try=True)
    assert len(sink.rows()) == 3
