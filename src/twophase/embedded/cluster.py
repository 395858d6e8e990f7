"""A cluster of one or three nodes that lives as long as the code that asked for it."""

import base64
import re
import shutil
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Self

from twophase.embedded import settings
from twophase.embedded.cache import disk_errors, disk_full, free_bytes
from twophase.embedded.certificates import Authority
from twophase.embedded.fetch import fetch_jars
from twophase.embedded.java import find_java
from twophase.embedded.node import READY_TIMEOUT_S, STOP_TIMEOUT_S, ClusterPlan, Node
from twophase.embedded.ports import PortTaken, free_ports, is_free, port_taken
from twophase.embedded.secured import Secured, checked_users
from twophase.embedded.settings import DEFAULT_VERSION, HOST, NodePorts, Ports, SecuredPorts
from twophase.errors import ConfigurationError, SetupError

_PORT_TRIES = 3
# The last of three controllers waits in vain for the others; doomed data needs no patience.
_TEMPORARY_STOP_S = 2.0
_NEEDED_BYTES = 64 * 1024 * 1024


class EmbeddedKafka:
    """A real Kafka on loopback, as a context manager; no JVM of it outlives this process.

    One node, or three with replication factor 3 and min ISR 2. `directory` keeps data and logs
    after the end (a temporary folder does not); `properties` adds or replaces server properties;
    `port` is the first node's, and the others follow it; `jvm_options` replaces those that make a
    node start quickly.

    With `users` (names and passwords) every listener asks who is there, and ACLs say who may do
    what. The super user `admin` is made along, with a password that `client_options` knows.
    """

    def __init__(
        self,
        nodes: int = 1,
        version: str = DEFAULT_VERSION,
        directory: Path | str | None = None,
        properties: Mapping[str, object] | None = None,
        *,
        port: int | None = None,
        jvm_options: Sequence[str] | None = None,
        users: Mapping[str, str] | None = None,
    ) -> None:
        settings.check(nodes, version, properties or {})
        self.version = version
        self.directory: Path | None = Path(directory).absolute() if directory else None
        self.nodes: tuple[Node, ...] = ()
        self._count = nodes
        self._temporary = directory is None
        self._properties = dict(properties or {})
        self._port = port
        self._jvm_options = tuple(jvm_options or settings.jvm_options(nodes))
        self._users = None if users is None else checked_users(users)
        # Made now, so that a machine that cannot is told so before anything starts.
        self._authority = None if users is None else Authority()
        self.secured: Secured | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, as a client's `bootstrap.servers` takes them."""
        return ",".join(node.address for node in self.nodes)

    def client_options(
        self, user: str, protocol: str = "SASL_SSL", mechanism: str = "SCRAM-SHA-512"
    ) -> dict[str, str]:
        """Return how a user connects, as Java names options: `bootstrap.servers` and the rest.

        `protocol` is SASL_SSL, SASL_PLAINTEXT or SSL, which shows the user's certificate;
        `mechanism` is PLAIN or SCRAM-SHA-512.
        """
        if self.secured is None:
            raise ConfigurationError("a cluster without users has no options for one; give users")
        options = self.secured.client_options(user, protocol, mechanism)
        ports = (node.ports for node in self.nodes)
        servers = [f"{HOST}:{p.port(protocol)}" for p in ports if isinstance(p, SecuredPorts)]
        return {"bootstrap.servers": ",".join(servers)} | options

    @property
    def proxied(self) -> dict[int, tuple[str, int]]:
        """Where a proxy before the whole cluster listens, and where it forwards to."""
        return {
            node.proxy_advertised_port: (HOST, int(node.proxied_address.rpartition(":")[2]))
            for node in self.nodes
        }

    def start(self) -> bool:
        """Fetch, format and start all nodes; return when each knows all others.

        While a node runs nothing is done, and the answer is False.
        """
        if any(node.running for node in self.nodes):
            return False
        ports = self._choose_ports()
        java, jars = find_java(), fetch_jars(f"kafka-{self.version}")
        if self._temporary:
            self.directory = Path(tempfile.mkdtemp(prefix="twophase-kafka-"))
        directory = self.directory or Path.cwd()
        if self._users is not None and self._authority is not None:
            folder = directory / "security"
            self.secured = Secured.prepare(folder, self._users, self._authority)
        for attempt in range(1, _PORT_TRIES + 1):
            plan = ClusterPlan(
                version=self.version,
                java=java,
                jars=jars,
                directory=directory,
                ports=ports,
                cluster_id=_known_cluster_id(directory) or _new_cluster_id(),
                properties=self._properties,
                discard=self._temporary,
                jvm_options=self._jvm_options,
                secured=self.secured,
            )
            try:
                self._start(plan)
            except PortTaken:
                self._stop_nodes(STOP_TIMEOUT_S)
                if attempt == _PORT_TRIES:
                    raise
                ports = self._choose_ports()
            except SetupError:
                # The error names the logs, so these stay even where the folder is temporary.
                self._stop_nodes(STOP_TIMEOUT_S)
                self._delete("node-*/data")
                raise
            except BaseException:
                self.stop()
                raise
            else:
                break
        return True

    def stop(self, timeout_s: float | None = None) -> None:
        """Stop all nodes cleanly, in bounded time; delete their data if the folder is temporary."""
        if timeout_s is None:
            timeout_s = _TEMPORARY_STOP_S if self._temporary else STOP_TIMEOUT_S
        self._stop_nodes(timeout_s)
        self._delete("")

    def release(self) -> None:
        """Let the brokers outlive this process; from here on only their pids lead to them."""
        for node in self.nodes:
            node.release()

    def _stop_nodes(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        for node in self.nodes:
            node.ask_to_stop()
        for node in self.nodes:
            node.stop(max(0.0, deadline - time.monotonic()))

    def _delete(self, pattern: str) -> None:
        if self._temporary and self.directory:
            for folder in self.directory.glob(pattern) if pattern else (self.directory,):
                shutil.rmtree(folder, ignore_errors=True)

    def _start(self, plan: ClusterPlan) -> None:
        if free_bytes(plan.directory) < _NEEDED_BYTES:
            # A broker starts with much less, and then dies at some write or page fault.
            raise disk_full(plan.directory)
        with disk_errors(plan.directory):
            self.nodes = tuple(Node(number + 1, plan) for number in range(self._count))
            with ThreadPoolExecutor(self._count) as pool:
                list(pool.map(Node.format, self.nodes))
            for node in self.nodes:
                node.launch()
            deadline = time.monotonic() + READY_TIMEOUT_S
            everyone = frozenset(node.node_id for node in self.nodes)
            for node in self.nodes:
                node.wait_ready(everyone, deadline)

    def _choose_ports(self) -> tuple[Ports, ...]:
        kind = NodePorts if self._users is None else SecuredPorts
        each = len(fields(kind))
        free = free_ports(each * self._count)
        ports: list[Ports] = []
        for number in range(self._count):
            main, *others = free[number * each : (number + 1) * each]
            if self._port is not None:
                main = self._port + number
                if not is_free(main):
                    raise port_taken(main)
            ports.append(kind(main, *others))
        return tuple(ports)


def _new_cluster_id() -> str:
    # Behind the A, because the storage tool would take a leading hyphen for an option.
    return "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]


def _known_cluster_id(directory: Path) -> str | None:
    for meta in directory.glob("node-*/data/meta.properties"):
        if match := re.search(r"^cluster\.id=(\S+)$", meta.read_text("utf-8"), re.MULTILINE):
            return match[1]
    return None
