"""One broker (and controller) process, which can be killed, paused, stopped and started again."""

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from twophase.embedded import settings
from twophase.embedded.failure import LogMark, explain, quote
from twophase.embedded.launch import Launched, launch
from twophase.embedded.process import ProcessIdentity
from twophase.embedded.ready import members
from twophase.embedded.secured import Secured, write_private
from twophase.embedded.settings import HOST, NodePorts, Ports
from twophase.errors import ConfigurationError, SetupError

READY_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 10.0
_FORMAT_TIMEOUT_S = 60.0
_POLL_S = 0.05
_FORMAT_OPTIONS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class ClusterPlan:
    """Everything that the nodes of one cluster have in common."""

    version: str
    java: Path
    jars: tuple[Path, ...]
    directory: Path
    ports: tuple[Ports, ...]
    cluster_id: str
    properties: Mapping[str, object] = field(default_factory=dict)
    discard: bool = False
    jvm_options: tuple[str, ...] = ()
    secured: Secured | None = None


class Node:
    """A broker on loopback; `address` is for clients, `proxied_address` for a proxy's far side."""

    def __init__(self, node_id: int, plan: ClusterPlan) -> None:
        self.node_id = node_id
        self.directory = plan.directory / f"node-{node_id}"
        self.log_file = self.directory / "logs" / "server.log"
        self.console_file = self.directory / "logs" / "console.log"
        self._plan = plan
        self._launched: Launched | None = None
        self._marks: tuple[LogMark, ...] = ()

    def __repr__(self) -> str:
        state = "paused" if self.paused else "running" if self.running else "not running"
        return f"<Node {self.node_id} at {self.address}, {state}>"

    @property
    def ports(self) -> Ports:
        """The node's ports, the same over all its restarts."""
        return self._plan.ports[self.node_id - 1]

    @property
    def address(self) -> str:
        """host:port of the listener that advertises itself."""
        return f"{HOST}:{self.ports.main}"

    @property
    def proxied_address(self) -> str:
        """host:port of the listener that advertises `proxy_advertised_port` instead of its own."""
        return f"{HOST}:{self._plain_ports.proxied}"

    @property
    def proxy_advertised_port(self) -> int:
        """The free port on which a proxy for this node has to listen."""
        return self._plain_ports.advertised

    @property
    def _plain_ports(self) -> NodePorts:
        if isinstance(self.ports, NodePorts):
            return self.ports
        raise ConfigurationError("a cluster with users has no listener for a proxy")

    @property
    def pid(self) -> int | None:
        """The JVM's pid while it runs."""
        return self._launched.jvm.pid if self._launched and self.running else None

    @property
    def guardian_pid(self) -> int | None:
        """The pid of the process that watches over the JVM."""
        return self._launched.guardian.pid if self._launched else None

    @property
    def process(self) -> ProcessIdentity | None:
        """The JVM as it was started last."""
        return self._launched.jvm if self._launched else None

    @property
    def running(self) -> bool:
        """Whether the JVM lives, paused or not."""
        return self._launched is not None and self._launched.jvm.alive

    @property
    def paused(self) -> bool:
        """Whether the JVM is held by `pause`."""
        return self._launched is not None and self._launched.jvm.paused

    def format(self) -> None:
        """Prepare the data folder, unless it was prepared before."""
        self._write_configuration()
        if (self.directory / "data" / "meta.properties").exists():
            return
        tool = ["kafka.tools.StorageTool", "format", "-t", self._plan.cluster_id, "-c"]
        tool.append(str(self._server_properties))
        users = self.directory / "users"
        if self._plan.secured:
            # By a file: everybody on the machine sees a process's arguments.
            write_private(users, self._plan.secured.format_arguments())
            tool.append(f"@{users}")
        mark = LogMark.end_of(self.console_file)
        with self.console_file.open("ab") as console:
            try:
                subprocess.run(
                    [*self._java(*_FORMAT_OPTIONS), *tool],
                    stdin=subprocess.DEVNULL,
                    stdout=console,
                    stderr=console,
                    timeout=_FORMAT_TIMEOUT_S,
                    check=True,
                )
            except subprocess.SubprocessError as error:
                raise explain(self._name, self.directory, (mark,)) from error
            finally:
                users.unlink(missing_ok=True)

    def launch(self) -> None:
        """Start the JVM without waiting for it."""
        if self.running:
            raise SetupError(f"{self._name} runs already; stop or kill it first")
        self._marks = (LogMark.end_of(self.log_file), LogMark.end_of(self.console_file))
        option, _ = settings.log_configuration(self._plan.version, self.log_file)
        configuration = (self.directory / "log.properties").as_uri()
        options = (*self._plan.jvm_options, f"-D{option}={configuration}")
        command = [*self._java(*options), "kafka.Kafka", str(self._server_properties)]
        discard = self.directory if self._plan.discard else None
        self._launched = launch(command, self.console_file, discard)

    def start(self) -> None:
        """Start the node on its old data and ports; return when the cluster has taken it back."""
        self.launch()
        self.wait_ready(frozenset({self.node_id}), time.monotonic() + READY_TIMEOUT_S)

    def wait_ready(self, expected: frozenset[int], deadline: float) -> None:
        """Return when this broker names all expected brokers and a controller; else SetupError."""
        context = self._plan.secured.tls_context() if self._plan.secured else None
        while not expected <= members(self.ports.internal, context):
            if not self.running:
                raise explain(self._name, self.directory, self._marks)
            if time.monotonic() > deadline:
                said = quote(self._marks[0].text_since())
                raise SetupError(
                    f"{self._name} was not ready in time; its log ends with: {said}; look into "
                    f"{self.log_file}, or try again when this machine is less busy"
                )
            time.sleep(_POLL_S)

    def kill(self) -> None:
        """End the JVM with SIGKILL, as a power failure would; returns when it is gone."""
        self._signal(signal.SIGKILL)
        self._wait_end(STOP_TIMEOUT_S)

    def pause(self) -> None:
        """Hold the JVM with SIGSTOP: it keeps its connections and answers nothing."""
        self._signal(signal.SIGSTOP)
        # Threads stop one after the other; the caller's next act is to find all of them still.
        self._wait_until(lambda: self.paused or not self.running)

    def resume(self) -> None:
        """Let a paused JVM go on."""
        self._signal(signal.SIGCONT)
        self._wait_until(lambda: not self.paused)

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End the JVM cleanly; with SIGKILL if it is not gone after timeout_s."""
        self.ask_to_stop()
        if not self._wait_end(timeout_s):
            self.kill()

    def ask_to_stop(self) -> None:
        """Begin a clean stop without waiting for its end."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def release(self) -> None:
        """Let the JVM outlive this process."""
        if self._launched:
            self._launched.release()

    def restart(self) -> None:
        """Stop cleanly and start again, on the same data and ports."""
        self.stop()
        self.start()

    @property
    def _name(self) -> str:
        return f"Kafka {self._plan.version} node {self.node_id}"

    @property
    def _server_properties(self) -> Path:
        return self.directory / "server.properties"

    def _java(self, *options: str) -> list[str]:
        class_path = ":".join(str(jar) for jar in self._plan.jars)
        # A node that is killed cannot tidy up: what its libraries unpack goes with its folder.
        own = f"-Djava.io.tmpdir={self.directory / 'tmp'}"
        return [str(self._plan.java), *options, own, "-cp", class_path]

    def _write_configuration(self) -> None:
        for name in ("logs", "tmp"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        secured = self._plan.secured.server_properties() if self._plan.secured else {}
        data, properties = self.directory / "data", {**secured, **self._plan.properties}
        text = settings.server_properties(self.node_id, self._plan.ports, data, properties)
        # It may hold passwords.
        write_private(self._server_properties, text)
        _, text = settings.log_configuration(self._plan.version, self.log_file)
        (self.directory / "log.properties").write_text(text, encoding="ascii")

    def _signal(self, number: int) -> None:
        if self._launched:
            self._launched.jvm.send(number)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise SetupError(f"{self._name} does not obey signals; try again")
            time.sleep(_POLL_S)

    def _wait_end(self, timeout_s: float) -> bool:
        if self._launched is None:
            return True
        ended = self._launched.jvm.wait(timeout_s)
        if ended:
            self._launched.guardian.wait(STOP_TIMEOUT_S)
        return ended
