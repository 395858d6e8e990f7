"""A hook that counts and times batches for Prometheus (the extra `metrics`).

    KafkaSink(..., hooks=[PrometheusHook()])

The driver's process then needs `prometheus_client.start_http_server(port)`, or whatever else the
user exports its registry by.
"""

from typing import Any

from twophase.errors import SetupError
from twophase.observe import BatchRecord

_PHASES = ("encode", "send", "commit", "open", "total")
_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600)


class PrometheusHook:
    """Counters of batches, rows and bytes, a histogram of seconds per phase, the last batch."""

    def __init__(self, registry: Any = None) -> None:
        try:
            import prometheus_client as client  # noqa: PLC0415 - an extra, not everybody has it
        except ImportError as error:
            raise SetupError(
                "prometheus-client is not installed; install twophase with its extra: metrics"
            ) from error
        where: dict[str, Any] = {"registry": client.REGISTRY if registry is None else registry}
        labels = ("sink_id",)
        self._batches = client.Counter(
            "twophase_batches", "Batches by outcome", (*labels, "outcome", "path"), **where
        )
        self._recoveries = client.Counter(
            "twophase_recoveries", "Batches by recovery action", (*labels, "action"), **where
        )
        self._rows = client.Counter("twophase_rows", "Rows written", labels, **where)
        self._bytes = client.Counter("twophase_bytes", "Bytes written", labels, **where)
        self._failed = client.Counter(
            "twophase_failed_rows", "Rows not written under the guarantee none", labels, **where
        )
        self._attempts = client.Counter(
            "twophase_attempts", "Attempts to write a batch", labels, **where
        )
        self._seconds = client.Histogram(
            "twophase_batch_seconds",
            "Seconds per phase of a batch; open is how long readers were held up",
            (*labels, "phase"),
            buckets=_BUCKETS_S,
            **where,
        )
        self._last = client.Gauge(
            "twophase_last_batch", "Number of the last batch in the store", labels, **where
        )

    def __call__(self, record: BatchRecord) -> None:
        """Count one call."""
        sink = record.sink_id
        self._batches.labels(sink, record.outcome, record.path).inc()
        self._recoveries.labels(sink, record.recovery).inc()
        self._rows.labels(sink).inc(record.rows)
        self._bytes.labels(sink).inc(record.bytes)
        self._failed.labels(sink).inc(record.failed_rows)
        self._attempts.labels(sink).inc(record.attempts)
        for phase in _PHASES:
            self._seconds.labels(sink, phase).observe(getattr(record, f"{phase}_s"))
        if record.error is None:
            self._last.labels(sink).set(record.batch)
