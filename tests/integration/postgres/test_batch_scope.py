"""BatchScope on a real server: each batch once, or a refusal that says what to do; no Spark."""

import hashlib
import itertools
import os
import pickle
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo

from twophase.clock import Clock
from twophase.commit.effects import Outcome
from twophase.commit.recovery import Batch
from twophase.embedded.postgres import EmbeddedPostgres
from twophase.errors import (
    CheckpointBehind,
    CommitOutcomeUnknown,
    ConfigurationError,
    Fenced,
    MarkerMissing,
    OffsetsChanged,
    OwnedByAnother,
    ProtocolViolation,
    RowRejected,
    StoreUnavailable,
    TwoPhaseError,
    WrongBatch,
)
from twophase.options import Secret
from twophase.postgres import batch_scope
from twophase.postgres.batch_scope import BatchScope, Staged
from twophase.postgres.columns import schema_of
from twophase.postgres.connection import connected, place_of
from twophase.postgres.markers import MARKERS, Markers
from twophase.postgres.staging import Staging
from twophase.postgres.target import Target
from twophase.spark.postgres_sink import PostgresSink, StageTask

ATTEMPTS = itertools.count(100)
COLUMNS = "id bigint, name text"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Given:
    """Tasks that stage the rows they are given, one list for each."""

    def __init__(self, *tasks, schema=SCHEMA, first=None, then=None):
        self.tasks, self.schema = tasks, schema
        self.first, self.then = first, then
        self.ran = self.executed = 0

    def run(self, stage):
        self.ran += 1
        if self.first is not None:
            self.first(stage)
        staged = []
        for task, rows in enumerate(self.tasks):
            attempt = next(ATTEMPTS)
            staged.append(Staged(task, attempt, stage.fill(attempt, [self.batch(rows)])))
        if self.then is not None:
            self.then(stage)
        return staged

    def execute(self):
        self.executed += 1

    def batch(self, rows):
        return pa.RecordBatch.from_pylist(
            [dict(zip(self.schema.names, row, strict=True)) for row in rows], self.schema
        )


class Sink:
    """A sink with a table of its own, and what a reader sees."""

    def __init__(self, url, columns=COLUMNS, key=()):
        self.url, self.key = url, key
        self.table, self.name = f"scope_{uuid4().hex[:12]}", f"twophase.{uuid4().hex[:12]}"
        self.ask(f"CREATE TABLE {self.table} ({columns})")

    def ask(self, query, values=None):
        """Execute something and return its rows."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def scope(self, **more):
        """A driver that has just started."""
        target = more.pop("target", None) or Target(self.table, self.key)
        with connected(Secret(self.url)) as connection:
            schema = schema_of(connection, target.table)
        return BatchScope(Secret(self.url), target, schema, self.name, **more)

    def rows(self):
        return sorted(self.ask(f"SELECT * FROM {self.table}"))

    def marker(self):
        """Owner, batch, offsets, rows and epoch; None where there is no row."""
        if self.ask("SELECT to_regclass(%s)", [MARKERS]) == [(None,)]:
            return None
        query = f"SELECT owner, batch, offsets, rows, epoch FROM {MARKERS} WHERE name = %s"
        found = self.ask(query, [self.name])
        return found[0] if found else None

    @property
    def prefix(self):
        """How the names of its staging tables begin."""
        return f"twophase_stage_{hashlib.sha256(self.name.encode()).hexdigest()[:12]}_"

    def stages(self):
        query = "SELECT relname::text FROM pg_class WHERE starts_with(relname, %s) ORDER BY relname"
        return [name for (name,) in self.ask(query, [self.prefix])]


@pytest.fixture
def make_sink(postgres_url):
    """Make a sink on the shared server."""

    def make(*args, url=postgres_url, **more):
        return Sink(url, *args, **more)

    return make


@pytest.fixture
def sink(make_sink):
    return make_sink()


def batch(number, owner="query", *, offsets=None, first_try=False):
    """A batch of a query that is started again, unless it is the first try."""
    return Batch(owner, number, offsets or f"hash-{number}", first_try)


def write(scope, number, *rows, owner="query", run="run", **more):
    """Write one batch in one task."""
    tasks = more.pop("tasks", None) or Given(rows)
    return scope.write(run, batch(number, owner, **more), tasks)


def numbered(*ids):
    return [(each, f"name {each}") for each in ids]


def offered(error):
    """The statements that an error offers, by the words before each."""
    lines = error.message.splitlines()
    pairs = itertools.pairwise(lines)
    return {
        before.rpartition(";")[2].strip(): line.strip()
        for before, line in pairs
        if line.startswith("  INSERT")
    }


def test_rows_arrive_once(sink):
    """Of all tasks, also those without rows; the marker says which batch and how many."""
    tasks = Given(numbered(1, 2), [], numbered(3))
    ended = write(sink.scope(), 0, tasks=tasks)
    assert (ended.outcome, ended.rows, ended.warnings) == (Outcome.COMMITTED, 3, ())
    assert sink.rows() == numbered(1, 2, 3)
    assert sink.marker()[:4] == ("query", 0, "hash-0", 3)
    assert sink.stages() == []


def test_a_batch_comes_twice_in_one_run(sink):
    """It is refused, and nothing is written again."""
    scope = sink.scope()
    write(scope, 0, *numbered(1))
    with pytest.raises(WrongBatch, match="batch 0 was written in this run already"):
        write(scope, 0, *numbered(1))
    write(scope, 1, *numbered(2), first_try=True)
    assert sink.rows() == numbered(1, 2)


def test_a_batch_that_failed_is_not_passed_over(sink):
    """The next one is refused; the same one may come again."""
    scope = sink.scope()

    def fails(_):
        raise ValueError("the user's own")

    with pytest.raises(ValueError, match="the user's own"):
        write(scope, 0, tasks=Given(numbered(1), then=fails))
    with pytest.raises(WrongBatch, match="batch 0 failed in this run"):
        write(scope, 1, *numbered(2), first_try=True)
    assert write(scope, 0, *numbered(1)).outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(1)
    assert sink.stages() == []


def test_a_restart_skips_what_is_there(sink):
    """The plan is executed, no task runs, and the next batches go on."""
    write(sink.scope(), 0, *numbered(1))
    again, tasks = sink.scope(), Given(numbered(1))
    ended = write(again, 0, tasks=tasks)
    assert (ended.outcome, ended.rows) == (Outcome.SKIPPED, 0)
    assert (tasks.executed, tasks.ran) == (1, 0)
    for number in (1, 2):
        ended = write(again, number, *numbered(number + 1), first_try=True)
        assert ended.outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(1, 2, 3)
    assert sink.marker()[1] == 2


@pytest.mark.parametrize("tasks", [(), ([], [])], ids=["no task", "tasks without rows"])
def test_an_empty_batch_moves_the_marker(sink, tasks):
    """So that the next driver knows that it was written."""
    ended = write(sink.scope(), 0, tasks=Given(*tasks))
    assert (ended.outcome, ended.rows) == (Outcome.COMMITTED, 0)
    assert sink.marker()[:4] == ("query", 0, "hash-0", 0)
    assert write(sink.scope(), 0).outcome is Outcome.SKIPPED
    assert sink.rows() == []


def test_two_winners_of_one_task(sink):
    """Whoever reports them breaks the protocol; nothing is written."""

    class Twice(Given):
        def run(self, stage):
            return super().run(stage) * 2

    with pytest.raises(ProtocolViolation, match="two attempts of one task won"):
        write(sink.scope(), 0, tasks=Twice(numbered(1)))
    assert sink.rows() == []
    assert sink.marker()[1] == -1


def refused(sink, kind, number, **more):
    """The error with which a start is refused, which changes nothing."""
    before = (sink.marker(), sink.rows(), sink.stages())
    tasks = Given(numbered(9))
    with pytest.raises(kind) as found:
        write(sink.scope(), number, tasks=tasks, **more)
    assert (tasks.ran, tasks.executed) == (0, 0)
    assert (sink.marker(), sink.rows(), sink.stages()) == before
    assert found.value.ids["sink"] == sink.name
    return found.value


def test_a_marker_that_is_missing(sink):
    """Batch 5 may be there or not; a person says which, and then it is so."""
    error = refused(sink, MarkerMissing, 5)
    assert set(offered(error)) == {"to skip it:", "to write it:"}
    sink.ask(offered(error)["to skip it:"])
    scope = sink.scope()
    assert write(scope, 5, *numbered(5)).outcome is Outcome.SKIPPED
    assert write(scope, 6, *numbered(6), first_try=True).outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(6)


def test_a_missing_marker_written_by_hand(sink):
    """The other choice: the batch is written, and once."""
    error = refused(sink, MarkerMissing, 5)
    sink.ask(offered(error)["to write it:"])
    assert write(sink.scope(), 5, *numbered(5)).outcome is Outcome.COMMITTED
    assert write(sink.scope(), 5, *numbered(5)).outcome is Outcome.SKIPPED
    assert sink.rows() == numbered(5)


@pytest.mark.parametrize(("number", "first_try"), [(0, False), (0, True), (7, True)])
def test_no_marker_and_nothing_to_fear(sink, number, first_try):
    """The first batch of all, or one that no earlier run can have written."""
    ended = write(sink.scope(), number, *numbered(1), first_try=first_try)
    assert ended.outcome is Outcome.COMMITTED
    assert sink.rows() == numbered(1)


def test_another_owner(sink):
    """It is refused, the owner writes on, and after the hand-over it is the other way round."""
    running = sink.scope()
    write(running, 3, *numbered(1), first_try=True)
    error = refused(sink, OwnedByAnother, 0, owner="it's\\other")
    assert "belongs to query, which has written batch 3" in error.message
    write(running, 4, *numbered(2), first_try=True)
    (handed_over,) = offered(error).values()
    sink.ask(handed_over)
    other = sink.scope()
    ended = write(other, 0, *numbered(3), owner="it's\\other", offsets="o")
    assert ended.outcome is Outcome.COMMITTED
    with pytest.raises(Fenced):
        write(running, 5, *numbered(4), first_try=True)
    refused(sink, OwnedByAnother, 5)
    write(other, 1, *numbered(5), owner="it's\\other", first_try=True)
    assert sink.rows() == numbered(1, 2, 3, 5)
    assert sink.marker()[:2] == ("it's\\other", 1)


def test_a_checkpoint_that_is_behind(sink):
    """It is refused, the running driver writes on; what the person asks for is doubled."""
    running = sink.scope()
    for number in range(4):
        write(running, number, *numbered(number), first_try=True)
    error = refused(sink, CheckpointBehind, 2)
    assert "batch 3 is written already and the checkpoint is at 2" in error.message
    write(running, 4, *numbered(4), first_try=True)
    (doubles,) = offered(error).values()
    sink.ask(doubles)
    assert write(sink.scope(), 2, *numbered(2)).outcome is Outcome.COMMITTED
    assert sink.rows() == sorted([*numbered(0, 1, 2, 3, 4), *numbered(2)])
    assert sink.marker()[1] == 2


def test_other_offsets(sink):
    """The batch's number stands for other rows: refused, and skipped if a person says so."""
    running = sink.scope()
    write(running, 0, *numbered(1), offsets="then")
    error = refused(sink, OffsetsChanged, 0, offsets="now")
    assert "(hash then, now now)" in error.message
    sink.ask(offered(error)["to skip it:"])
    scope = sink.scope()
    assert write(scope, 0, *numbered(2), offsets="now").outcome is Outcome.SKIPPED
    write(scope, 1, *numbered(3), first_try=True)
    assert sink.rows() == numbered(1, 3)


def test_other_offsets_written_by_hand(sink):
    """The other choice; and until then the running driver is not fenced."""
    running = sink.scope()
    write(running, 0, *numbered(1), offsets="then")
    error = refused(sink, OffsetsChanged, 0, offsets="now")
    write(running, 1, *numbered(2), first_try=True)
    sink.ask(offered(error)["to write it:"])
    assert write(sink.scope(), 0, *numbered(3), offsets="now").outcome is Outcome.COMMITTED
    assert write(sink.scope(), 0, *numbered(3), offsets="now").outcome is Outcome.SKIPPED
    assert sink.rows() == numbered(1, 2, 3)


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


def test_attempts_that_lost(sink):
    """Their rows are in the same table and are not taken."""

    def loses(stage):
        stage.fill(7, [Given().batch(numbered(1, 8))])

    ended = write(sink.scope(), 0, tasks=Given(numbered(1), first=loses, then=loses))
    assert (ended.outcome, ended.rows) == (Outcome.COMMITTED, 1)
    assert sink.rows() == numbered(1)


def test_an_attempt_that_failed(sink):
    """What it has copied until then is gone."""

    def fails(stage):
        def batches():
            yield Given().batch(numbered(1))
            raise ValueError("the user's own")

        with pytest.raises(ValueError, match="the user's own"):
            stage.fill(7, batches())
        assert sink.ask(f"SELECT count(*) FROM {stage.name}") == [(0,)]

    write(sink.scope(), 0, tasks=Given(numbered(1), first=fails))
    assert sink.rows() == numbered(1)


def test_an_attempt_that_is_still_copying(sink):
    """It holds nothing up: its table stays for now, and a later batch drops it."""
    scope = sink.scope()
    with psycopg.connect(sink.url) as late, late.cursor() as cursor:
        copies = []

        def begins(stage):
            context = cursor.copy(f"COPY {stage.name} FROM STDIN")
            copies.append((context, context.__enter__()))
            copies[0][1].write_row((1, "late", 7))

        began_s = time.monotonic()
        ended = write(scope, 0, tasks=Given(numbered(1), then=begins))
        assert ended.outcome is Outcome.COMMITTED
        (stays,) = sink.stages()
        warned = [ended.warnings, write(scope, 1, *numbered(2), first_try=True).warnings]
        assert time.monotonic() - began_s < 60
        for (warning,) in warned:
            assert warning.startswith(f"the staging table {stays} stays for now")
        copies[0][0].__exit__(None, None, None)
    ended = write(scope, 2, *numbered(3), first_try=True)
    assert ended.warnings == ()
    assert sink.stages() == []
    assert sink.rows() == numbered(1, 2, 3)


def test_leftovers_of_older_drivers(make_sink):
    """They are swept; what is a newer driver's, another sink's or nobody's stays."""
    sink, other = make_sink(), make_sink()
    newer, foreign, odd = f"{sink.prefix}{10**15}_0", f"{other.prefix}5_0", f"{sink.prefix}mine"
    for table in (f"{sink.prefix}5_0", f"{sink.prefix}6_12", newer, foreign, odd):
        sink.ask(f"CREATE TABLE {table} (id int)")
    assert write(sink.scope(), 0, *numbered(1)).warnings == ()
    assert sink.stages() == [newer, odd]
    assert other.stages() == [foreign]


def test_leftovers_where_the_batch_is_skipped(sink):
    """A driver that has died after its commit leaves its table to the next one."""
    write(sink.scope(), 0, *numbered(1))
    sink.ask(f"CREATE UNLOGGED TABLE {sink.prefix}{sink.marker()[4]}_0 (id int)")
    assert write(sink.scope(), 0, *numbered(1)).outcome is Outcome.SKIPPED
    assert sink.stages() == []


def test_rows_replace_those_with_the_same_key(make_sink):
    """The others are inserted, and a restart skips."""
    sink = make_sink("id bigint PRIMARY KEY, name text, note text DEFAULT 'new'", key="id")
    scope = sink.scope()
    write(scope, 0, (1, "a"), (2, "b"))
    sink.ask(f"UPDATE {sink.table} SET note = 'kept'")
    write(scope, 1, (2, "c"), (3, None), first_try=True)
    expected = [(1, "a", "kept"), (2, "c", "kept"), (3, None, "new")]
    assert sink.rows() == expected
    assert write(sink.scope(), 1, (2, "d")).outcome is Outcome.SKIPPED
    assert sink.rows() == expected


def test_a_key_of_two_columns(make_sink):
    """In either order; both must be the same."""
    columns = 'id bigint, "odd ""name""" text, value text, UNIQUE ("odd ""name""", id)'
    sink = make_sink(columns, key=("id", 'odd "name"'))
    schema = pa.schema([("id", pa.int64()), ('odd "name"', pa.string()), ("value", pa.string())])
    check(sink, schema)
    scope = sink.scope()
    write(scope, 0, tasks=Given([(1, "a", "x"), (1, "b", "x")], schema=schema))
    again = Given([(1, "a", "y"), (2, "a", "y")], schema=schema)
    write(scope, 1, tasks=again, first_try=True)
    assert sink.rows() == [(1, "a", "y"), (1, "b", "x"), (2, "a", "y")]


def test_all_columns_are_the_key(make_sink):
    """What is there stays, the rest is inserted."""
    sink = make_sink(f"{COLUMNS}, PRIMARY KEY (id, name)", key=("id", "name"))
    scope = sink.scope()
    write(scope, 0, *numbered(1, 2))
    assert write(scope, 1, *numbered(2, 3), first_try=True).rows == 2
    assert sink.rows() == numbered(1, 2, 3)


def test_two_rows_of_a_batch_with_one_key(make_sink):
    """Nobody says which is the later one: refused by the key's name, nothing is written."""
    sink = make_sink("id bigint PRIMARY KEY, name text", key="id")
    with pytest.raises(RowRejected, match=r"two rows of the batch have the same key \(id\)"):
        write(sink.scope(), 0, tasks=Given([(1, "a"), (2, "b")], [(2, "c")]))
    assert sink.rows() == []
    assert sink.marker()[1] == -1


def check(sink, schema=SCHEMA):
    """What the sink asks before its first batch."""
    with connected(Secret(sink.url)) as connection:
        Target(sink.table, sink.key).check(connection, schema)


@pytest.mark.parametrize(
    ("columns", "index"),
    [
        (COLUMNS, None),
        (COLUMNS, "INDEX ON {} (id)"),
        (COLUMNS, "UNIQUE INDEX ON {} (id) WHERE id > 0"),
        (COLUMNS, "UNIQUE INDEX ON {} ((id + 1))"),
        (COLUMNS, "UNIQUE INDEX ON {} (id, (id + 1))"),
        (COLUMNS, "UNIQUE INDEX ON {} (id, name)"),
        (f"{COLUMNS}, UNIQUE (id) DEFERRABLE", None),
    ],
    ids=["none", "not unique", "partial", "expression", "and expression", "wider", "deferrable"],
)
def test_a_key_without_an_index(make_sink, columns, index):
    """By which PostgreSQL finds the row to replace: refused with table and key."""
    sink = make_sink(columns, key="id")
    if index:
        sink.ask(f"CREATE {index.format(sink.table)}")
    told = f"key is id, and the table {sink.table} has no unique index .* UNIQUE INDEX ON"
    with pytest.raises(ConfigurationError, match=told):
        check(sink)


def test_a_key_with_an_index(make_sink):
    """Also where the index carries other columns along."""
    sink = make_sink(key="id")
    sink.ask(f"CREATE UNIQUE INDEX ON {sink.table} (id) INCLUDE (name)")
    check(sink)
    write(sink.scope(), 0, (1, "a"))
    write(sink.scope(), 1, (1, "b"))
    assert sink.rows() == [(1, "b")]


def test_a_key_that_is_no_column_of_the_rows(make_sink):
    """It is named, with what the rows have."""
    sink = make_sink("id bigint PRIMARY KEY, name text", key="id")
    schema = pa.schema([("name", pa.string())])
    with pytest.raises(ConfigurationError, match="key names the column id, and the rows have name"):
        check(sink, schema)


def test_a_column_with_the_name_of_the_attempts(make_sink):
    """It is the sink's own: refused, and no table is made."""
    sink = make_sink("twophase_attempt bigint")
    schema = pa.schema([("twophase_attempt", pa.int64())])
    with pytest.raises(ConfigurationError, match="rename it"):
        write(sink.scope(), 0, tasks=Given([(1,)], schema=schema))
    assert sink.stages() == []


def add_trigger(sink, body, when="BEFORE INSERT", each="ROW"):
    """Let the table do this for each row, or once for a statement."""
    sink.ask(
        f"CREATE FUNCTION {sink.table}_f() RETURNS trigger LANGUAGE plpgsql AS $$ "
        f"BEGIN {body} END $$"
    )
    sink.ask(
        f"CREATE TRIGGER t {when} ON {sink.table} FOR EACH {each} EXECUTE FUNCTION {sink.table}_f()"
    )


def test_a_trigger_that_takes_rows_out(sink):
    """What counts is what was staged: the batch is written, without them."""
    add_trigger(sink, "IF NEW.id % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW;")
    ended = write(sink.scope(), 0, *numbered(1, 2, 3))
    assert (ended.outcome, ended.rows) == (Outcome.COMMITTED, 3)
    assert sink.rows() == numbered(1, 3)
    assert write(sink.scope(), 0, *numbered(1, 2, 3)).outcome is Outcome.SKIPPED


@pytest.mark.parametrize("what", ["DATABASE postgres", "ROLE CURRENT_USER"])
@pytest.mark.parametrize(("asked", "then"), [("off", "on"), ("local", "local")])
def test_a_commit_that_the_server_only_promises(make_sink, weak_server, what, asked, then):
    """It is never relied on; what asks for more stays as it is."""
    sink = make_sink(url=weak_server.url)
    sink.ask("CREATE TABLE IF NOT EXISTS noted (what text); TRUNCATE noted")
    sink.ask(f"ALTER {what} SET synchronous_commit = {asked}")
    add_trigger(
        sink,
        "INSERT INTO noted VALUES (current_setting('synchronous_commit')); RETURN NULL;",
        when="AFTER INSERT",
        each="STATEMENT",
    )
    assert sink.ask("SHOW synchronous_commit") == [(asked,)]
    write(sink.scope(), 0, *numbered(1))
    assert sink.ask("SELECT what FROM noted") == [(then,)]
    sink.ask(f"ALTER {what} RESET synchronous_commit")


@pytest.fixture(scope="module")
def weak_server():
    """A server whose settings the test may change."""
    with EmbeddedPostgres() as found:
        yield found


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ("id bigint, name text NOT NULL", "null value in column"),
        ("id bigint UNIQUE, name text", "duplicate key value violates unique"),
        ("id bigint CHECK (id < 2), name text", "violates check constraint"),
    ],
)
def test_a_row_that_the_table_refuses(make_sink, columns, told):
    """Nothing of the batch is written, the marker is not moved, and it is so again."""
    sink = make_sink(columns)
    for _ in range(2):
        with pytest.raises(RowRejected, match=told):
            write(sink.scope(), 0, (1, "a"), (2, "b"), (2, None))
        assert sink.rows() == []
        assert sink.marker()[1] == -1


def test_a_trigger_that_refuses_a_row(sink):
    """What it says is told, and nothing is written."""
    add_trigger(sink, "IF NEW.id = 2 THEN RAISE EXCEPTION 'not today'; END IF; RETURN NEW;")
    with pytest.raises(TwoPhaseError, match="not today"):
        write(sink.scope(), 0, *numbered(1, 2))
    assert sink.rows() == []
    assert sink.marker()[1] == -1


CANARY = "canary-7"
ADDRESS = f"postgresql://me:{CANARY}@127.0.0.1:1/nowhere"


def test_the_password_is_in_no_text(caplog):
    """Not in a repr, not in an error, not in a log, and not on its way to a task."""
    caplog.set_level(0)
    url = Secret(ADDRESS)
    stage = Staging(url, "s", "public", Target("t").table)
    table = batch_scope.Stage(url, "public", "t")
    scope = BatchScope(url, Target("t"), "public", "s")
    sink = PostgresSink(ADDRESS, "t", sink_id="s")
    sent = [pickle.loads(pickle.dumps(each)) for each in (table, sink, StageTask(table))]
    for each in (url, stage, table, scope, sink, StageTask(table), *sent):
        assert CANARY not in f"{each!r} {each} {vars_of(each)}"
    acts = [
        lambda: write(scope, 0, *numbered(1)),
        lambda: table.fill(1, [Given().batch(numbered(1))]),
        lambda: sink._check(None, SCHEMA),
    ]
    for act in acts:
        with pytest.raises(StoreUnavailable, match="PostgreSQL does not answer") as found:
            act()
        assert CANARY not in f"{found.value} {found.value!r} {found.value.__cause__!r}"
    assert CANARY not in place_of(url)
    assert CANARY not in caplog.text


def vars_of(thing):
    """What a debugger shows of it."""
    return repr(getattr(thing, "__dict__", None))


@pytest.mark.parametrize(
    "url",
    [
        f"{CANARY}",
        f"me:{CANARY}@host/name",
        f"postgresql://me:{CANARY}%@host/name",
        f"host=h password={CANARY} {CANARY}",
        f"host=h password='{CANARY}",
        f"postgresql://host/name?{CANARY}=1",
    ],
)
def test_a_url_that_is_no_address(url):
    """It is refused in one sentence that has nothing of it."""
    with pytest.raises(ConfigurationError, match="url is no address of a database") as found:
        PostgresSink(url, "t", sink_id="s")
    assert CANARY not in str(found.value)
    assert found.value.__context__ is None
    assert "\n" not in found.value.message


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


@pytest.fixture
def odd_sink(make_sink, postgres_url):
    """In a schema with an odd name, which is the connection's own."""
    schema = f"Odd name {uuid4().hex[:8]}"
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
    escaped = schema.replace(" ", "\\ ")
    return make_sink(url=make_conninfo(postgres_url, options=f'-csearch_path="{escaped}"'))


def test_a_schema_with_an_odd_name(odd_sink):
    """The sink's own tables are made and dropped there."""
    assert write(odd_sink.scope(), 0, *numbered(1)).outcome is Outcome.COMMITTED
    assert odd_sink.rows() == numbered(1)
    assert odd_sink.stages() == []


def test_a_refusal_in_a_schema_with_an_odd_name(odd_sink):
    """What it offers can be executed as it is."""
    error = refused(odd_sink, MarkerMissing, 5)
    odd_sink.ask(offered(error)["to skip it:"])
    assert write(odd_sink.scope(), 5, *numbered(5)).outcome is Outcome.SKIPPED


def test_two_drivers_make_the_table_of_markers(sink):
    """In a schema that has none yet: all go on."""
    for _ in range(20):
        schema = f"s_{uuid4().hex[:8]}"
        sink.ask(f"CREATE SCHEMA {schema}")

        def make(schema=schema):
            with connected(Secret(sink.url)) as connection:
                Markers(schema, "s").make(connection)

        assert at_the_same_moment(make, make, make) == [None] * 3


def test_a_password_that_is_not_escaped():
    """With its slash it is taken for a port: refused like any url that is no address."""
    with pytest.raises(ConfigurationError, match="url is no address") as found:
        PostgresSink(f"postgresql://localhost:{CANARY}/rest@127.0.0.1:1/name", "t", sink_id="s")
    assert CANARY not in str(found.value)


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


def test_a_trigger_that_rejects(sink):
    """What it says is told as what it is: a row that no retry can write."""
    add_trigger(sink, "RAISE EXCEPTION 'not today';")
    with pytest.raises(RowRejected, match="not today"):
        write(sink.scope(), 0, *numbered(1))


def test_a_server_that_has_forgotten(sink):
    """As after a fail-over to a replica that was behind: nothing is written past the gap."""
    scope = sink.scope()
    for number in range(3):
        write(scope, number, *numbered(number), first_try=True)
    sink.ask(f"UPDATE {MARKERS} SET batch = 1 WHERE name = %s", [sink.name])
    with pytest.raises(MarkerMissing, match=r"has written batch 2 and .* batch 1 was the last"):
        write(scope, 3, *numbered(3), first_try=True)
    assert len(sink.rows()) == 3
