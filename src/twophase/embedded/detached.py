"""The one cluster of `twophase kafka`, which is left running between commands."""

import json
import secrets
import shutil
import signal
import ssl
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from twophase.embedded import settings
from twophase.embedded.cache import disk_errors, home, locked, write_atomically
from twophase.embedded.cluster import EmbeddedKafka
from twophase.embedded.fetch import fetch_jars
from twophase.embedded.node import STOP_TIMEOUT_S
from twophase.embedded.process import ProcessIdentity
from twophase.embedded.progress import waiting
from twophase.embedded.ready import members
from twophase.embedded.secured import ADMIN, tls_context, write_private
from twophase.embedded.settings import DEFAULT_VERSION, HOST
from twophase.errors import ConfigurationError, SetupError

_LOCK_TIMEOUT_S = 180.0
_KILL_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class NodeRecord:
    """What has to be known of a node to find it again, and no other process in its place."""

    node_id: int
    pid: int
    started: str
    port: int
    log_file: str
    # Where the other nodes speak to it; with users another port.
    internal: int | None = None

    @property
    def process(self) -> ProcessIdentity:
        """The node's JVM."""
        return ProcessIdentity(self.pid, self.started)


@dataclass(frozen=True)
class ClusterRecord:
    """The content of the state file."""

    version: str
    directory: str
    nodes: tuple[NodeRecord, ...]
    users: tuple[str, ...] = ()

    @property
    def security(self) -> Path:
        """The folder with the users' files."""
        return Path(self.directory) / "security"


@dataclass(frozen=True)
class NodeStatus:
    """A node as it is now: running, paused, not answering or dead."""

    node_id: int
    state: str
    pid: int
    address: str
    log_file: str


@dataclass(frozen=True)
class ClusterStatus:
    """The cluster as it is now: running, partly running or not running.

    `users` has the file for --command-config of each user; empty where everybody may do all.
    """

    state: str
    version: str | None = None
    bootstrap_servers: str | None = None
    directory: str | None = None
    nodes: tuple[NodeStatus, ...] = ()
    users: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """What a start or stop did: `changed` is False when there was nothing to do."""

    changed: bool
    cluster: ClusterStatus


def status() -> ClusterStatus:
    """Return what runs now, by asking the processes and brokers themselves."""
    record = _read()
    if record is None:
        return ClusterStatus("not running")
    context = _context(record)
    nodes = tuple(_node_status(node, context) for node in record.nodes)
    alive = [node.address for node in nodes if node.state != "dead"]
    whole = all(node.state == "running" for node in nodes)
    return ClusterStatus(
        state="running" if whole else "partly running" if alive else "not running",
        version=record.version,
        bootstrap_servers=",".join(alive) or None,
        directory=record.directory,
        nodes=nodes,
        users={name: str(record.security / f"{name}.properties") for name in record.users},
    )


def start(
    nodes: int | None = None,
    version: str | None = None,
    port: int | None = None,
    users: Sequence[str] = (),
) -> Change:
    """Start a cluster and leave it running; a cluster that runs as asked is left as it is.

    `users` get passwords that nobody chose, and a file for --command-config each.
    """
    with disk_errors(_folder()), _lock("starting or stopping Kafka"):
        now = status()
        if now.state != "not running":
            _refuse_other(now, nodes, version, port, users)
            return Change(changed=False, cluster=now)
        version = version or DEFAULT_VERSION
        directory = _folder() / f"{version}-{nodes or 1}"
        passwords = {name: secrets.token_urlsafe(24) for name in users} if users else None
        cluster = EmbeddedKafka(nodes or 1, version, directory, port=port, users=passwords)
        secured = (directory / "security").exists() or _had_users(directory)
        kept = not secured and any(directory.glob("node-*/data"))
        if kept and users:
            raise ConfigurationError(
                f"{directory} has data that was kept by a cluster without users; start without "
                "--user, or delete that folder first"
            )
        if not kept:
            # With users nothing is kept: their keys and passwords are made anew.
            shutil.rmtree(directory, ignore_errors=True)
        # Here and not only inside, because two live displays cannot share a terminal.
        fetch_jars(f"kafka-{version}")
        try:
            with waiting(f"starting Kafka {version}"):
                cluster.start()
        except BaseException:
            if not kept:
                _delete_data(directory)
            raise
        # Written before the brokers are let go: killed in between, we leave none behind.
        _write(cluster, directory)
        cluster.release()
        return Change(changed=True, cluster=status())


def stop(*, keep_data: bool = False, timeout_s: float = STOP_TIMEOUT_S) -> Change:
    """Stop whatever runs of the cluster, in bounded time; delete its data, keep its logs."""
    with disk_errors(_folder()), _lock("starting or stopping Kafka"):
        record = _read()
        if record is None:
            return Change(changed=False, cluster=ClusterStatus("not running"))
        if keep_data and record.users:
            raise ConfigurationError(
                "--keep-data is given, and a cluster with users keeps nothing, because keys and "
                "passwords are made at each start; stop it without --keep-data"
            )
        # Not asked as `status` does: a cluster whose keys are gone must end as well.
        ran = any(node.process.alive for node in record.nodes)
        with waiting(f"stopping Kafka {record.version}"):
            _end([node.process for node in record.nodes], timeout_s)
        if not keep_data:
            _delete_data(Path(record.directory))
        _state_file().unlink(missing_ok=True)
        return Change(changed=ran, cluster=ClusterStatus("not running", record.version))


def _refuse_other(
    now: ClusterStatus,
    nodes: int | None,
    version: str | None,
    port: int | None,
    users: Sequence[str],
) -> None:
    ports = [int(node.address.rpartition(":")[2]) for node in now.nodes]
    differences = [
        f"{name} {asked} was asked for and {found} is running"
        for name, asked, found in (
            ("nodes", nodes, len(now.nodes)),
            ("version", version, now.version),
            ("port", port, ports[0]),
            ("users", _words(users), _words(set(now.users) - {ADMIN})),
        )
        if asked not in (None, found)
    ]
    if differences:
        raise ConfigurationError(f"{'; '.join(differences)}; run `twophase kafka stop` first")
    if now.state == "partly running":
        states = ", ".join(f"node {node.node_id} is {node.state}" for node in now.nodes)
        raise SetupError(
            f"the cluster runs only in part: {states}; run `twophase kafka stop` first"
        )


def _had_users(directory: Path) -> bool:
    """Whether the cluster that ran last had users and this folder, also where its keys are gone."""
    record = _read()
    return record is not None and bool(record.users) and Path(record.directory) == directory


def _words(users: Iterable[str]) -> str | None:
    return ", ".join(sorted(users)) or None


def _context(record: ClusterRecord) -> ssl.SSLContext | None:
    """Return with what the nodes are asked; they need none where nobody does or nobody lives."""
    if not record.users or not any(node.process.alive for node in record.nodes):
        return None
    try:
        return tls_context(record.security)
    except OSError as error:
        raise SetupError(
            f"Kafka runs, and the keys to ask it cannot be read from {record.security} "
            f"({error.strerror}); run `twophase kafka stop`, then start it anew"
        ) from error


def _node_status(node: NodeRecord, context: ssl.SSLContext | None) -> NodeStatus:
    if not node.process.alive:
        state = "dead"
    elif node.process.paused:
        state = "paused"
    else:
        known = members(node.internal or node.port, context)
        state = "running" if node.node_id in known else "not answering"
    return NodeStatus(node.node_id, state, node.pid, f"{HOST}:{node.port}", node.log_file)


def _end(processes: list[ProcessIdentity], timeout_s: float) -> None:
    for process in processes:
        process.send(signal.SIGTERM)
        process.send(signal.SIGCONT)
    deadline = time.monotonic() + timeout_s
    for process in processes:
        if process.wait(max(0.0, deadline - time.monotonic())):
            continue
        process.send(signal.SIGKILL)
        if not process.wait(_KILL_TIMEOUT_S):
            raise SetupError(f"process {process.pid} does not end, even by SIGKILL; try again")


def _delete_data(directory: Path) -> None:
    for data in (*directory.glob("node-*/data"), directory / "security"):
        shutil.rmtree(data, ignore_errors=True)
    for told in directory.glob("node-*/server.properties"):
        told.unlink()


def _folder() -> Path:
    return home() / "kafka"


def _state_file() -> Path:
    return _folder() / "state.json"


def _lock(purpose: str) -> AbstractContextManager[None]:
    return locked(_folder() / "lock", timeout_s=_LOCK_TIMEOUT_S, purpose=purpose)


def _write(cluster: EmbeddedKafka, directory: Path) -> None:
    nodes = tuple(
        NodeRecord(
            *(n.node_id, n.process.pid, n.process.started, n.ports.main, str(n.log_file)),
            n.ports.internal,
        )
        for n in cluster.nodes
        if n.process
    )
    users = tuple(cluster.secured.users) if cluster.secured else ()
    record = ClusterRecord(cluster.version, str(directory), nodes, users)
    for user in users:
        lines = [
            f"{key}={settings.escaped(value)}\n"
            for key, value in cluster.client_options(user).items()
        ]
        write_private(record.security / f"{user}.properties", "".join(lines))
    write_atomically(_state_file(), json.dumps(asdict(record), indent=2))


def _read() -> ClusterRecord | None:
    try:
        with disk_errors(_folder()):
            content = json.loads(_state_file().read_text("utf-8"))
        nodes = tuple(NodeRecord(**node) for node in content.pop("nodes"))
        users = tuple(content.pop("users", ()))
        return ClusterRecord(**content, nodes=nodes, users=users)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise SetupError(
            f"{_state_file()} is not a state file of this version; stop the brokers that it names, "
            "if any, and delete it"
        ) from error
