"""The one door to kafka-python's private send-to-node interface.

kafka-python runs an event loop of its own on one I/O thread; its connection manager opens, secures
and reopens connections and encodes requests. Everything this package asks of a broker goes through
`Wire.ask` (one request, its answer) or `Wire.submit` (one request, a callback). Whatever goes wrong
below leaves here as `StoreUnavailable`, `AccessDenied` or `ConfigurationError`; an answer is
returned as it came, errors inside it included, because their meaning depends on the request.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Final, Self

import kafka.errors as kafka_errors
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest

from twophase.clock import Clock
from twophase.errors import AccessDenied, ConfigurationError, StoreUnavailable, TwoPhaseError
from twophase.kafka.closed_doors import hint
from twophase.kafka.connections import REFUSALS, Connections
from twophase.kafka.identity import TransactionVersion
from twophase.kafka.options import KafkaOptions
from twophase.kafka.rights import DENIED, missing

_log = logging.getLogger("twophase")

GROUP: Final = 0
TRANSACTION: Final = 1

# The window is ours to keep, per partition (see lane.py). kafka-python's own limit does not queue
# past itself, it fails the request; so it is put out of reach.
_NO_LIMIT: Final = 1_000_000

# What the broker's operators see in its request metrics (KIP-511).
_SOFTWARE: Final = {
    "client_software_name": "twophase",
    "client_software_version": version("twophase"),
}

# How long a second set of connections is waited for, where there is a first.
_BESIDE_MS: Final = 2_000

Done = Callable[[Any, TwoPhaseError | None], None]


class Wire:
    """Connections to one cluster, shared by everything in this process that talks to it."""

    def __init__(self, options: KafkaOptions) -> None:
        self.options = options
        self.clock = Clock()
        settings = options.connection_settings() | {
            **_SOFTWARE,
            "max_in_flight_requests_per_connection": _NO_LIMIT,
        }
        # A large Produce holds the loop for more than kafka-python's 0.1 s on a busy machine;
        # its warning would blame user code that is not there.
        self._net = NetworkSelector(client_id=options.client_id, slow_task_threshold_secs=0)
        self._manager = Connections(self._net, options.security, **settings)
        self._coordinators: dict[tuple[int, str], int] = {}
        self._closed = False
        self._net.start()
        try:
            self._bootstrap()
        except BaseException:
            self.close()
            raise

    def _bootstrap(self) -> None:
        servers = ",".join(self.options.bootstrap_servers)
        what = f"no answer from kafka.bootstrap.servers={servers}"
        limit_ms = self.options.max_block_ms
        try:
            self._manager.bootstrap(timeout_ms=limit_ms)
        except kafka_errors.KafkaTimeoutError as error:
            refused, every = self._manager.refused
            if refused is not None and every:
                raise refused from error
            why = hint(self._manager.last_failure, self.options.security)
            # The others may come back, and one of them may let us in.
            beside = "" if refused is None else f"; one address refuses: {refused.message}"
            raise StoreUnavailable(
                f"{what} within {limit_ms} ms (kafka.max.block.ms); the last try: {why}{beside}"
            ) from error
        except Exception as error:
            raise _translated(error, what) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def broken(self) -> bool:
        """Whether no answer can come any more: closed, or its I/O thread has died."""
        return self._closed or self._net._exception is not None  # noqa: SLF001 - nothing else tells

    def close(self) -> None:
        """Close every connection and end the I/O thread; idempotent."""
        if self._closed:
            return
        self._closed = True
        with suppress(Exception):  # Raised again by a loop that has died; there is nothing to do.
            self._net.call_soon_threadsafe(self._manager.close)
        # A loop that is busy for longer, with a name or a user's own token, goes on alone; whoever
        # closes may have an error to raise.
        with suppress(Exception):
            self._net.stop(timeout_ms=5_000)
            self._net.close()

    def beside(self) -> "Wire | None":
        """Return connections of their own to the brokers that are known; None where none open soon.

        Not to the first addresses, which may be gone by now.
        """
        brokers = self._manager.cluster.brokers()
        hosts = (
            (f"[{each.host}]" if ":" in each.host else each.host, each.port) for each in brokers
        )
        options = replace(
            self.options,
            bootstrap_servers=tuple(f"{host}:{port}" for host, port in hosts),
            max_block_ms=min(self.options.max_block_ms, _BESIDE_MS),
        )
        try:
            return Wire(options)
        except TwoPhaseError as error:
            _log.warning("no second connection to the brokers: %s", error.message)
            return None

    def ask(self, request: Any, node: int | None = None) -> Any:
        """Return the answer to one request; `node=None` asks any broker."""
        try:
            return self._manager.run(self._send, request, node)
        except Exception as error:
            self._learn(error)
            raise _translated(error, f"{type(request).__name__} got no answer") from error

    def submit(self, request: Any, node: int | None, done: Done) -> None:
        """Send one request; `done(answer, error)` is called on the I/O thread, once."""

        def go() -> None:
            try:
                future = self._manager.send(request, node_id=node)
            except Exception as error:  # noqa: BLE001 - every failure must reach `done`
                self._learn(error)
                done(None, _translated(error, f"node {node} cannot be reached"))
                return
            future.add_callback(lambda answer: done(answer, None))
            future.add_errback(
                lambda error: done(None, _translated(error, f"no answer from node {node}"))
            )

        self._schedule(go)

    def _learn(self, error: Exception) -> None:
        # A node that joined since: the list of brokers is otherwise looked up every five minutes.
        if isinstance(error, kafka_errors.UnknownBrokerIdError):
            self._manager.cluster.request_update()

    def later(self, delay_s: float, act: Callable[[], None]) -> None:
        """Call `act` on the I/O thread after a delay."""

        def go() -> None:
            self._net.call_later(delay_s, act)

        self._schedule(go)

    def _schedule(self, act: Callable[[], None]) -> None:
        try:
            self._net.call_soon_threadsafe(act)
        except Exception as error:
            raise _translated(error, "this wire is closed") from error

    async def _send(self, request: Any, node: int | None) -> Any:
        # A node is briefly not ready while its connection backs off or a quota mutes it. Waiting
        # here keeps every caller's own retry loop for answers only.
        limit_ms = self.options.request_timeout_ms
        deadline = time.monotonic() + limit_ms / 1000
        # A request waits for its connection first, then for its answer; whatever is lost on the way
        # in the layers below, the caller gets an error after both limits.
        longest_ms = limit_ms + self.options.socket_setup_timeout_max_ms
        while True:
            try:
                future = self._manager.send(request, node_id=node)
                return await self._manager.wait_for(future, longest_ms)
            except kafka_errors.NodeNotReadyError:
                if time.monotonic() >= deadline:
                    raise
                await self._net.sleep(self.options.retry_backoff_ms / 1000)

    def ask_features(self, node: int) -> Any:
        """Return a broker's answer that names the features which it supports and has finalised."""
        return self.ask(ApiVersionsRequest(**_SOFTWARE), node)

    def transaction_version(self) -> TransactionVersion:
        """Return the protocol that the cluster's finalised features ask for."""
        answer = self.ask_until_answered(lambda: ApiVersionsRequest(**_SOFTWARE))
        for feature in answer.finalized_features or ():
            if feature.name == "transaction.version" and feature.max_version_level >= 2:  # noqa: PLR2004
                return TransactionVersion.V2
        return TransactionVersion.V1

    def ask_until_answered(self, request: Callable[[], Any]) -> Any:
        """Ask any broker, again after no answer, within `kafka.max.block.ms`."""
        deadline_s = self.clock.now_s() + self.options.max_block_ms / 1000
        while True:
            try:
                return self.ask(request())
            except StoreUnavailable:
                if self.broken or self.clock.now_s() >= deadline_s:
                    raise
            self.clock.sleep(self.options.retry_backoff_ms / 1000)

    def look_anew(self) -> None:
        """Learn which brokers there are: one that is down is otherwise known for five minutes."""
        self._manager.cluster.request_update()

    def nodes(self) -> tuple[int, ...]:
        """Return the ids of the cluster's brokers."""
        return tuple(broker.node_id for broker in self._manager.cluster.brokers())

    def coordinator(self, kind: int, key: str, limit_ms: int | None = None) -> int:
        """Return the node that coordinates a group or a transactional id, remembered.

        Asks for `kafka.max.block.ms`, if not told otherwise.
        """
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        deadline = self.clock.now_s() + (limit_ms or self.options.max_block_ms) / 1000
        while True:
            code, node = self._find_coordinator(kind, key)
            if code == 0:
                self._coordinators[kind, key] = node
                return node
            error = kafka_errors.for_code(code)
            if code in DENIED:
                said = missing("FindCoordinator", code, [key])
                raise AccessDenied(f"the coordinator of {key!r} may not be found: {said}")
            if not getattr(error, "retriable", False) or self.clock.now_s() >= deadline:
                raise _translated(error(), f"the coordinator of {key!r} cannot be found")
            self.clock.sleep(self.options.retry_backoff_ms / 1000)

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Ask again next time: the coordinator has moved or does not answer."""
        self._coordinators.pop((kind, key), None)

    def _find_coordinator(self, kind: int, key: str) -> tuple[int, int]:
        # Asked one by one although v4 takes many: a sink has one transactional id and one group.
        answer = self.ask(FindCoordinatorRequest(key=key, key_type=kind, max_version=3))
        return answer.error_code, answer.node_id


def _translated(error: BaseException, what: str) -> TwoPhaseError:
    """Map the lower library's errors to ours; the only place that knows both."""
    if isinstance(error, TwoPhaseError):
        return error
    found = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, REFUSALS):
        return AccessDenied(f"{what}: {found}")
    if isinstance(error, kafka_errors.IncompatibleBrokerVersion):
        return ConfigurationError(f"{what}: the broker is too old for this request ({found})")
    return StoreUnavailable(f"{what}: {found}")
