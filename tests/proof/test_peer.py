"""The same query and kill through this package's sink and through Spark's own, one checker."""

import itertools

import pytest

from twophase.verify.proxy import ApiKey, KafkaProxy
from twophase.verify.trial import SPARK, TWOPHASE
from twophase.verify.verdict import Kind

from .support_trials import RUN_S, until

ROWS = 3_000


def killed_in_the_middle_of_a_batch(cluster, open_trial, sink):
    """Kill the driver when a part of its only batch is in the log, and the rest cannot get there.

    The proxy lets two Produce requests pass and holds the rest, so that no clock decides.
    """
    with KafkaProxy(cluster.proxied) as proxy:
        trial = open_trial(
            cluster,
            rows=ROWS,
            rows_per_batch=ROWS,
            sink=sink,
            kafka={"kafka.batch.size": 16_384},
        )
        seen = itertools.count()
        held = proxy.on(ApiKey.PRODUCE, where=lambda _: next(seen) >= 2).hold(times=None)
        trial.driver.start(servers=proxy.bootstrap_servers)
        held.wait_caught(RUN_S)
        until(lambda: trial.length() > 0, "a part of the batch")
        assert trial.length() < ROWS
        trial.driver.kill()
    trial.finish()
    return trial


@pytest.mark.long
@pytest.mark.timeout(300)
def test_sparks_own_sink_is_caught_duplicating(kafka, open_trial):
    """Expected: the rows that were in the log are there twice, and part of the batch was seen."""
    trial = killed_in_the_middle_of_a_batch(kafka, open_trial, SPARK)
    verdict = trial.judged()
    assert verdict.not_checked == ()
    assert 0 < verdict.count(Kind.DUPLICATE) < ROWS
    assert verdict.rows_out == ROWS + verdict.count(Kind.DUPLICATE)
    assert verdict.count(Kind.TORN) == 1
    assert verdict.count(Kind.LOST) == 0


@pytest.mark.long
@pytest.mark.timeout(300)
def test_this_sink_is_not(kafka, open_trial):
    """Expected: what was in the log is aborted and never seen; each row is there once."""
    trial = killed_in_the_middle_of_a_batch(kafka, open_trial, TWOPHASE)
    trial.check()
