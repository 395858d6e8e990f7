"""kafka-python's connections, mended in five places that matter to a transaction.

Only `wire.py` uses this module; the two are all that touches kafka-python's private interface.

- An answer that arrives together with the end of its connection is read, not dropped: it may be
  the answer to a commit, or the broker's reason to refuse a password.
- What is sent is a memoryview: under TLS kafka-python cuts off what was sent, 16 kB at a time, and
  cutting bytes copies the rest of a request of megabytes every time.
- A connection that is closed closes its socket, and drops what it has not sent: kafka-python would
  send it first, in a loop that has ended by then, and keep the socket.
- A TLS handshake ends at the connection's deadline, also with a peer that says nothing.
- The reason why a connection could not be opened is kept for the error that a person sees, and its
  socket is closed.
"""

import ssl
from typing import TYPE_CHECKING, Any

import kafka.errors as kafka_errors
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from twophase.kafka.closed_doors import causes, refusal
from twophase.kafka.security import Security

if TYPE_CHECKING:
    from twophase.errors import TwoPhaseError

REFUSALS = (
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.AuthorizationError,
)


class _WholeAnswers:
    """A transport that reads what was sent before the end, copies nothing, and closes at once."""

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        data, end = super()._sock_recv()  # type: ignore[misc]
        # The end is seen again by the next read, which then has no data before it.
        return data, None if data else end

    def write(self, data: bytes) -> None:
        super().write(memoryview(data))  # type: ignore[misc]

    def close(self) -> None:
        self._write_buffer.clear()  # type: ignore[attr-defined]
        super().close()  # type: ignore[misc]


class _PlainTransport(_WholeAnswers, KafkaTCPTransport):  # type: ignore[misc]
    pass


class _TlsTransport(_WholeAnswers, KafkaSSLTransport):  # type: ignore[misc]
    async def handshake_until(self, timeout_at: float | None) -> None:
        """Shake hands, or fail at the deadline: a peer that stays silent must not hold us."""
        while True:
            try:
                self._sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at)
            else:
                return


class _TlsFailed(kafka_errors.KafkaConnectionError):  # type: ignore[misc]
    """A handshake that failed, with the reason as its argument."""

    def __str__(self) -> str:
        return f"TLS handshake failed: {self.args[0]}"


class Connections(KafkaConnectionManager):  # type: ignore[misc]
    """The connections of one cluster; `last_failure` says why the latest one did not open.

    One that the clock has cut off says nothing of a broker, and does not stand for one that does.
    """

    def __init__(self, net: Any, security: Security, **settings: Any) -> None:
        super().__init__(net, **settings)
        self._security = security
        self._refused: dict[Any, TwoPhaseError] = {}
        self.last_failure: BaseException | None = None

    @property
    def refused(self) -> tuple["TwoPhaseError | None", bool]:
        """What one of the first addresses has refused for good, and whether all of them did."""
        every = len(self._refused) == len(self.cluster.bootstrap_brokers())
        return next(iter(self._refused.values()), None), every

    async def _connect(self, node: Any, conn: Any, *args: Any, **kwargs: Any) -> None:
        # Also what comes after the handshakes: a broker refuses a certificate, or a client without
        # a password, by closing.
        conn.close_future.add_errback(lambda failure: self._note(node, failure))
        await super()._connect(node, conn, *args, **kwargs)
        failure = conn.init_future.exception
        if failure is not None:
            self._note(node, failure)

    def _keep(self, failure: BaseException) -> None:
        cut_off = any(
            isinstance(cause, kafka_errors.KafkaTimeoutError) for cause in causes(failure)
        )
        if self.last_failure is None or not cut_off:
            self.last_failure = failure

    def _note(self, node: Any, failure: BaseException) -> None:
        self._keep(failure)
        if not self.cluster.is_bootstrap(node.node_id):
            return
        refused = refusal(failure, f"{node.host}:{node.port}", self._security)
        if refused is None:
            return
        self._refused[node.node_id] = refused
        if self.refused[1]:
            # What all refuse stays refused: kafka-python raises what it finds here at once, instead
            # of trying until time runs out.
            self._auth_failures |= self._refused

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        try:
            sock = await create_connection(
                self._net,
                node.host,
                node.port,
                self.config["socket_options"],
                proxy_url=self.config["proxy_url"],
                timeout_at=timeout_at,
            )
        except Exception as error:
            self._keep(error)
            raise
        if not self.ssl_enabled:
            return _PlainTransport(self._net, sock, host=node.host)
        transport = _TlsTransport(
            self._net, sock, host=node.host, ssl_context=self.config["ssl_context"]
        )
        try:
            await transport.handshake_until(timeout_at)
        except Exception as error:
            transport.abort(error)
            raise _TlsFailed(error) from error
        return transport
