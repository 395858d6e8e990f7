"""What attempts leave in the staging tables of BatchScope: taken if they won, swept if not."""

import time

import psycopg
import pytest
from support.batch_scope import Given, numbered, write

from twophase.commit.effects import Outcome


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
