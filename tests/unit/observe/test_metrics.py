"""Metrics: what is shown while a batch goes on, what is counted after it, where it is served."""

import pickle
import socket
import threading
from urllib.error import URLError

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from support.scraping import Scrape
from support.scraping import scrape as ask

from twophase.call_watch import CallWatch, Phase, Recovery
from twophase.commit import effects as do
from twophase.commit import events as ev
from twophase.commit.effects import Outcome
from twophase.commit.naming import SinkName
from twophase.commit.recovery import Batch
from twophase.commit.summary import PartitionSummary, Summary
from twophase.commit.turns import Ended
from twophase.errors import ConfigurationError, Fenced, SetupError, TwoPhaseError
from twophase.observe import TASK, announce, notify, scope_record
from twophase.prometheus import PrometheusHook
from twophase.watch import Watch

SUMMARY = Summary((PartitionSummary("t", 0, 1, 10, 500, "d"),))
ORDERS = SinkName("orders")


@pytest.fixture
def hook():
    return PrometheusHook(CollectorRegistry())


@pytest.fixture
def scrape(hook):
    """Return what an answer over HTTP holds."""
    return lambda: Scrape(generate_latest(hook._registry).decode())


def begun(hook, name=ORDERS, watch=None):
    watch = watch or CallWatch()
    announce([hook], name, 3, watch)
    return watch


def ended(hook, watch, *, error=None, outcome=Outcome.COMMITTED, name=ORDERS):
    watch.stop()
    found = None if error else Ended(outcome, 10, 1.0, 0.5, ("a warning",), 500)
    batch = Batch("q", 3, "h", first_try=True)
    notify([hook], scope_record(name, batch, path=TASK, ended=found, watch=watch, error=error))


def test_the_age_is_read_at_the_scrape(hook, scrape):
    """It grows while nobody tells anything; after the end it is 0, and the limit stays in sight."""
    watch = begun(hook)
    assert scrape()("transaction_age_seconds") == 0
    assert scrape()("transaction_limit_seconds") is None
    watch.phase = Phase.SEND
    watch.opens(60.0)
    first, second = scrape(), scrape()
    assert 0 < first("transaction_age_seconds") < second("transaction_age_seconds")
    assert 0 < first("batch_age_seconds", phase="send") < second("batch_age_seconds", phase="send")
    assert first("transaction_limit_seconds") == 60
    watch.closes()
    assert scrape()("transaction_age_seconds") == 0
    ended(hook, watch)
    after = scrape()
    assert after("batch_age_seconds") is None
    assert (after("transaction_age_seconds"), after("transaction_limit_seconds")) == (0, 60)


def test_of_runs_side_by_side_the_oldest_is_shown(hook, scrape):
    """With the limit that is its own; a store without a limit shows none."""
    older = begun(hook, SinkName("orders", "monday"))
    older.opens(None)
    younger = begun(hook, SinkName("orders", "tuesday"))
    younger.opens(60.0)
    assert scrape()("transaction_limit_seconds") is None
    least = older.open_now_s
    assert scrape()("transaction_age_seconds") >= least
    older.stop()
    assert scrape()("transaction_limit_seconds") == 60


def test_a_transaction_whose_commit_was_not_answered_counts_as_open():
    """Until a re-acquire has told how it ended; the limit is that of the time of its opening."""
    limits = iter([3.0, 30.0])
    watch = Watch(limit_s=lambda: next(limits))
    watch.begins(do.Send("id", SUMMARY))
    watch.ended(do.Send("id", SUMMARY), ev.Sent(SUMMARY))
    watch.begins(do.Commit("id"))
    watch.ended(do.Commit("id"), ev.CommitUnknown(TwoPhaseError("no answer")))
    assert (watch.opening.limit_s, watch.phase) == (3.0, Phase.COMMIT)
    watch.begins(do.Reacquire("id"))
    assert watch.open_now_s > 0
    watch.ended(do.Reacquire("id"), ev.Reacquired("id", None))
    assert (watch.opening, watch.open_now_s) == (None, 0)
    watch.begins(do.Send("id", SUMMARY))
    assert (watch.opening.limit_s, watch.retries) == (30.0, 1)


def test_retries_are_counted_once_for_each_failure():
    """Blocks that are lost while they are sent cost a second prepare and a second send: one."""
    watch = Watch()
    for effect, event in (
        (do.Prepare(1), ev.PrepareFailed("lost")),
        (do.Prepare(2), ev.Prepared(SUMMARY)),
        (do.Send("id", SUMMARY), ev.BlocksLost("lost")),
        (do.Prepare(3), ev.Prepared(SUMMARY)),
        (do.Send("id", SUMMARY), ev.Sent(SUMMARY)),
    ):
        watch.begins(effect)
        watch.ended(effect, event)
    assert watch.retries == 2


def test_what_is_counted(hook, scrape):
    """A fence by its own name and by its code, skips and retries, rows, bytes, warnings."""
    watch = begun(hook)
    watch.retried()
    watch.opens(60.0)
    ended(hook, watch)
    written = scrape()
    skipped = begun(hook)
    ended(hook, skipped, outcome=Outcome.SKIPPED)
    ended(hook, begun(hook), error=Fenced("a newer owner"))
    ended(hook, begun(hook), error=ValueError("the user's own"))
    seen = scrape()
    assert seen("batches_total", outcome="committed", path="task") == 1
    assert seen("batches_total", outcome="failed", path="task") == 2
    assert seen("recoveries_total", action="skipped") == 1
    assert seen("fences_total") == seen("failed_batches_total", code="TWOPHASE_FENCED") == 1
    assert seen("failed_batches_total", code="OTHER") == 1
    assert (seen("retries_total"), written("rows_total"), written("bytes_total")) == (1, 10, 500)
    assert written("warnings_total") == 1
    assert seen("last_batch") == 3
    commit = seen("last_commit_timestamp_seconds")
    assert commit == written("last_commit_timestamp_seconds") > 0
    assert seen("batch_seconds_sum", phase="open") > 0


def test_counters_are_there_before_they_count(hook, scrape):
    """An increase from nothing to 1 is none to Prometheus: the first fence would alarm nobody."""
    begun(hook)
    seen = scrape()
    counted = ("rows", "bytes", "fences", "retries", "failed_rows", "rejected_rows", "warnings")
    for name in (f"{each}_total" for each in counted):
        assert seen(name) == 0, name
    assert seen("failed_batches_total", code="TWOPHASE_COMMITTABLE_LOST") == 0
    assert all(seen("recoveries_total", action=each.value) == 0 for each in Recovery)


def test_hooks_of_one_registry_share_it(scrape, hook):
    """Two sinks with a hook each, or one hook for both: the same metrics either way."""
    second = PrometheusHook(hook._registry)
    ended(hook, begun(hook))
    ended(second, begun(second, SinkName("clicks")), name=SinkName("clicks"))
    assert scrape()("rows_total") == scrape()("rows_total", "clicks") == 10


def test_calls_that_are_over_are_not_kept(hook):
    """Also where nobody ever scrapes."""
    for _ in range(100):
        ended(hook, begun(hook))
    last = begun(hook)
    assert [call.watch for call in hook._metrics._under_way._calls["orders"]] == [last]


def test_a_follower_that_fails_changes_nothing(caplog):
    """It is logged, and the next hook is told; hooks that only count are left alone."""

    class Broken:
        def follow(self, _call):
            raise RuntimeError("a broken hook")

    told = PrometheusHook(CollectorRegistry())
    announce([Broken(), [].append, told], ORDERS, 3, CallWatch())
    assert "a broken hook" in caplog.text
    assert "orders" in told._metrics._under_way._calls


def test_a_scrape_meets_every_moment(hook):
    """A driver opens and ends transactions as fast as it can; no scrape fails or shows nonsense."""
    watch, stop, failures = begun(hook), threading.Event(), []

    def drive():
        while not stop.is_set():
            watch.opens(60.0)
            watch.closes()

    def look():
        try:
            for _ in range(2_000):
                for family in hook._metrics._under_way.collect():
                    assert all(0 <= sample.value <= 60 for sample in family.samples)
        except Exception as error:  # noqa: BLE001 - told by the test's own thread
            failures.append(error)

    driver, scraper = threading.Thread(target=drive), threading.Thread(target=look)
    driver.start()
    scraper.start()
    scraper.join(60)
    stop.set()
    driver.join(60)
    assert failures == []


def test_where_it_is_served(hook):
    """On the machine itself unless told otherwise, until it is closed; a clear word where not."""
    begun(hook).opens(60.0)
    endpoint = hook.serve(0)
    assert ask(endpoint.url)("transaction_limit_seconds") == 60
    assert endpoint.url == f"http://127.0.0.1:{endpoint.port}/metrics"
    endpoint.close()
    with pytest.raises(URLError):
        ask(endpoint.url)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SetupError, match=rf"cannot be served at 127.0.0.1:{port} .* choose"):
            hook.serve(port)
    with pytest.raises(ConfigurationError, match=r"port of the metrics is 70000; allowed are"):
        hook.serve(70_000)


def test_over_spark_connect_it_counts_where_it_is_sent():
    """In the registry of that process; one of the user's own cannot go along."""
    sent = pickle.loads(pickle.dumps(PrometheusHook()))
    assert sent._registry is REGISTRY
    with pytest.raises(ConfigurationError, match="make it without a registry"):
        pickle.dumps(PrometheusHook(CollectorRegistry()))
