"""The metrics of all sinks in one Prometheus registry; docs/metrics.md says what each means.

Counters are moved by records, which come when a call has ended. What goes on is asked at the
scrape: a driver that hangs in a batch tells nothing, and just then the age of its transaction
matters.
"""

import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily

from twophase.call_watch import Recovery
from twophase.errors import Fenced, TwoPhaseError
from twophase.observe import OTHER, BatchRecord, Call

if TYPE_CHECKING:
    from collections.abc import Sequence

_SINK: Final = ("sink_id",)
_PHASES: Final = ("encode", "send", "commit", "open", "total")
_BUCKETS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600)


class Metrics:
    """What hooks of one registry have seen of their sinks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"twophase_{name}", text, (*_SINK, *labels), registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"twophase_{name}", text, _SINK, registry=registry)

        self._batches = counter("batches", "Calls of the sink by outcome", "outcome", "path")
        self._failed = counter("failed_batches", "Calls that failed by error code", "code")
        self._recoveries = counter("recoveries", "Calls by what else was to be done", "action")
        self._fences = counter("fences", "Calls refused because another driver has the sink")
        self._retries = counter("retries", "What the sink tried again within a call")
        self._warnings = counter("warnings", "Warnings of calls that went well")
        self._rows = counter("rows", "Rows written")
        self._bytes = counter("bytes", "Bytes written")
        self._failed_rows = counter("failed_rows", "Rows lost under the guarantee none")
        self._rejected = counter("rejected_rows", "Rows written to the dead-letter topic")
        self._seconds = Histogram(
            "twophase_batch_seconds",
            "Seconds per phase of a call; open is how long readers were held up",
            (*_SINK, "phase"),
            buckets=_BUCKETS_S,
            registry=registry,
        )
        self._last_batch = gauge("last_batch", "Number of the last batch in the store")
        self._last_commit = gauge("last_commit_timestamp_seconds", "When a call last wrote a batch")
        self._under_way = UnderWay()
        registry.register(self._under_way)

    def follow(self, call: Call) -> None:
        """Watch a call from its beginning on."""
        if self._under_way.add(call):
            self._begin(call.sink_id)

    def count(self, record: BatchRecord) -> None:
        """Count a call that has ended."""
        sink = record.sink_id
        self._batches.labels(sink, record.outcome, record.path).inc()
        self._recoveries.labels(sink, record.recovery).inc()
        self._retries.labels(sink).inc(record.retries)
        self._warnings.labels(sink).inc(len(record.warnings))
        self._rows.labels(sink).inc(record.rows)
        self._bytes.labels(sink).inc(record.bytes)
        self._failed_rows.labels(sink).inc(record.failed_rows)
        self._rejected.labels(sink).inc(record.rejected_rows)
        self._fences.labels(sink).inc(record.code == Fenced.code)
        for phase in _PHASES:
            self._seconds.labels(sink, phase).observe(getattr(record, f"{phase}_s"))
        if record.error is not None:
            self._failed.labels(sink, record.code or OTHER).inc()
            return
        self._last_batch.labels(sink).set(record.batch)
        if record.recovery != Recovery.SKIPPED:
            self._last_commit.labels(sink).set_to_current_time()

    def _begin(self, sink: str) -> None:
        """Set to 0 what alerts look at: an increase from nothing to 1 is none to Prometheus."""
        lost = (self._failed_rows, self._rejected)
        for each in (self._rows, self._bytes, self._fences, self._retries, self._warnings, *lost):
            each.labels(sink)
        for action in Recovery:
            self._recoveries.labels(sink, action.value)
        for code in (*_codes(TwoPhaseError), OTHER):
            self._failed.labels(sink, code)


class UnderWay:
    """The calls that go on, looked at by each scrape."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, list[Call]] = {}
        self._limits_s: dict[str, float] = {}

    def add(self, call: Call) -> bool:
        """Keep a call until it is over; return whether it is the first of its sink."""
        with self._lock:
            first = call.sink_id not in self._calls
            self._calls[call.sink_id] = [*self._on(call.sink_id), call]
        return first

    def describe(self) -> "Sequence[GaugeMetricFamily]":
        """Return the metrics without values, for the registry."""
        return _families()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return what is true now."""
        batch_age, age, limit = families = _families()
        with self._lock:
            for sink in self._calls:
                calls = self._calls[sink] = self._on(sink)
                watches = [call.watch for call in calls]
                open_now = [each for watch in watches if (each := watch.opening) is not None]
                # Runs of a job may go side by side: the oldest is the one to look at.
                oldest = min(open_now, key=lambda each: each.began_s, default=None)
                age.add_metric([sink], 0.0 if oldest is None else oldest.age_s)
                limit_s = self._limits_s.get(sink) if oldest is None else oldest.limit_s
                if limit_s is not None:
                    limit.add_metric([sink], limit_s)
                for phase, seconds in _oldest_by_phase(calls).items():
                    batch_age.add_metric([sink, phase], seconds)
        yield from families

    def _on(self, sink: str) -> list[Call]:
        """Return the calls that go on, and remember the limit of those that are over."""
        calls = self._calls.get(sink, [])
        for call in calls:
            if call.watch.limit_s is not None:
                self._limits_s[sink] = call.watch.limit_s
        return [call for call in calls if not call.watch.is_over]


def _families() -> "tuple[GaugeMetricFamily, GaugeMetricFamily, GaugeMetricFamily]":
    return (
        GaugeMetricFamily(
            "twophase_batch_age_seconds",
            "How long the call that goes on has taken so far",
            labels=(*_SINK, "phase"),
        ),
        GaugeMetricFamily(
            "twophase_transaction_age_seconds",
            "How long the open transaction is open; 0 where none is",
            labels=_SINK,
        ),
        GaugeMetricFamily(
            "twophase_transaction_limit_seconds",
            "How long the store keeps a transaction open",
            labels=_SINK,
        ),
    )


def _oldest_by_phase(calls: Iterable[Call]) -> dict[str, float]:
    ages: dict[str, float] = {}
    for call in calls:
        phase = call.watch.phase.value
        ages[phase] = max(ages.get(phase, 0.0), call.watch.total_s)
    return ages


def _codes(kind: type[Any]) -> Iterator[str]:
    """Return the codes of all errors that are raised."""
    for each in kind.__subclasses__():
        yield each.code
        yield from _codes(each)
