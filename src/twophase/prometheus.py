"""A hook that shows all sinks of a driver to Prometheus (the extra `metrics`).

    hook = PrometheusHook()
    hook.serve(9108)
    KafkaSink(..., hooks=[hook])

One hook serves any number of sinks. `serve` is for drivers that expose nothing yet; where the
process exports its registry by other means, leave it out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from twophase.errors import ConfigurationError, SetupError
from twophase.observe import BatchRecord, Call

if TYPE_CHECKING:
    from twophase.metrics import Metrics

_PORT_MAX: Final = 65_535
# Two sinks with a hook each, or a notebook's cell that is run again: a registry has one of each.
_METRICS: "WeakKeyDictionary[Any, Metrics]" = WeakKeyDictionary()


class PrometheusHook:
    """Counts and times batches, and shows how old an open transaction is; docs/metrics.md."""

    def __init__(self, registry: Any = None) -> None:
        try:
            import prometheus_client as client  # noqa: PLC0415 - an extra, not everybody has it

            from twophase.metrics import Metrics  # noqa: PLC0415 - the same
        except ImportError as error:
            raise SetupError(
                "prometheus-client is not installed; install twophase with its extra: metrics"
            ) from error
        self._registry = client.REGISTRY if registry is None else registry
        self._is_default = registry is None
        if self._registry not in _METRICS:
            _METRICS[self._registry] = Metrics(self._registry)
        self._metrics = _METRICS[self._registry]

    def __reduce__(self) -> tuple[Any, ...]:
        """Go to a Spark Connect server: there it counts in that process's own registry."""
        if not self._is_default:
            raise ConfigurationError(
                "a PrometheusHook with a registry of its own was sent to another process, where "
                "that registry is not; make it without a registry"
            )
        return PrometheusHook, ()

    def follow(self, call: Call) -> None:
        """Show a call while it goes on."""
        self._metrics.follow(call)

    def __call__(self, record: BatchRecord) -> None:
        """Count a call that has ended."""
        self._metrics.count(record)

    def serve(self, port: int, address: str = "127.0.0.1") -> "Endpoint":
        """Answer scrapes at http://address:port/metrics from a thread; port 0 takes a free one.

        Whoever reaches the address can read the metrics: sink ids and figures, no rows and no
        secrets.
        """
        from prometheus_client import start_http_server  # noqa: PLC0415

        if not isinstance(port, int) or not 0 <= port <= _PORT_MAX:
            raise ConfigurationError(
                f"the port of the metrics is {port!r}; allowed are whole numbers from 0, which "
                f"takes a free one, to {_PORT_MAX}"
            )
        try:
            server, thread = start_http_server(port, addr=address, registry=self._registry)
        except OSError as error:
            raise SetupError(
                f"the metrics cannot be served at {address}:{port} ({error}); choose another port, "
                "an address of this machine, or port 0 for any that is free"
            ) from error

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return Endpoint(address, server.server_port, close)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the metrics are; `close` ends it."""

    address: str
    port: int
    close: Callable[[], None]

    @property
    def url(self) -> str:
        """What Prometheus asks."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/metrics"
