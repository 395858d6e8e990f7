"""What a node is told: its server.properties, its log configuration, its JVM's options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twophase.errors import ConfigurationError

HOST = "127.0.0.1"
DEFAULT_VERSION = "4.3.1"
# 3.9.2 is the last of the brokers that finalise transaction.version 1 at most.
VERSIONS = (DEFAULT_VERSION, "3.9.2")
NODE_COUNTS = (1, 3)


@dataclass(frozen=True)
class Listener:
    """One way into a node; it tells clients `advertised` as its port, if anything."""

    name: str
    protocol: str
    port: int
    advertised: int | None


@dataclass(frozen=True)
class NodePorts:
    """The four loopback ports of a node; nobody but a test's proxy listens on `advertised`."""

    plain: int
    controller: int
    proxied: int
    advertised: int

    @property
    def main(self) -> int:
        """The port for clients."""
        return self.plain

    @property
    def internal(self) -> int:
        """The port for other nodes."""
        return self.plain

    def listeners(self) -> tuple[Listener, ...]:
        """Return all of them, the one for other nodes first."""
        return (
            Listener("PLAINTEXT", "PLAINTEXT", self.plain, self.plain),
            Listener("CONTROLLER", "PLAINTEXT", self.controller, None),
            Listener("PROXIED", "PLAINTEXT", self.proxied, self.advertised),
        )


@dataclass(frozen=True)
class SecuredPorts:
    """The loopback ports of a node whose listeners all ask who is there."""

    main: int
    controller: int
    internal: int
    ssl: int
    sasl_plaintext: int

    def listeners(self) -> tuple[Listener, ...]:
        """Return all of them, the one for other nodes first."""
        return (
            Listener("INTERNAL", "SSL", self.internal, self.internal),
            Listener("CONTROLLER", "SSL", self.controller, None),
            Listener("SASL_SSL", "SASL_SSL", self.main, self.main),
            Listener("SSL", "SSL", self.ssl, self.ssl),
            Listener("SASL_PLAINTEXT", "SASL_PLAINTEXT", self.sasl_plaintext, self.sasl_plaintext),
        )

    def port(self, protocol: str) -> int:
        """Return the port for clients of a security protocol."""
        found = {"SASL_SSL": self.main, "SSL": self.ssl, "SASL_PLAINTEXT": self.sasl_plaintext}
        return found[protocol]


Ports = NodePorts | SecuredPorts


# The cluster is built around these; a caller who changed one would get a cluster that cannot start.
_OURS = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "node.id",
        "process.roles",
    }
)


def check(nodes: int, version: str, properties: Mapping[str, object]) -> None:
    """Refuse what no cluster can be started with, before anything is touched."""
    if nodes not in NODE_COUNTS:
        raise ConfigurationError(f"nodes is {nodes!r}; allowed are 1 and 3")
    if version not in VERSIONS:
        raise ConfigurationError(f"version is {version!r}; allowed are {', '.join(VERSIONS)}")
    if taken := sorted(_OURS & properties.keys()):
        raise ConfigurationError(
            f"{taken[0]} is set by the embedded cluster itself; leave it out of properties"
        )


def server_properties(
    node_id: int, ports: Sequence[Ports], data: Path, properties: Mapping[str, object]
) -> str:
    """Return the server.properties of one node of a cluster of len(ports) nodes."""
    listeners = ports[node_id - 1].listeners()
    told = [each for each in listeners if each.advertised is not None]
    replicas = len(ports)
    in_sync = 2 if replicas > 1 else 1
    settings: dict[str, object] = {
        # A development cluster: small internal topics, quick starts, quick ends of dead things.
        "auto.create.topics.enable": "false",
        "broker.heartbeat.interval.ms": 500,
        "broker.session.timeout.ms": 5000,
        "default.replication.factor": replicas,
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        # Each partition maps two files of this size when its first record comes, and the kernel
        # fills the pages with zeros: with Kafka's 10 MB, 64 new partitions take a gigabyte.
        "log.index.size.max.bytes": 1024 * 1024,
        "min.insync.replicas": in_sync,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": replicas,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        **properties,
        "process.roles": "broker,controller",
        "node.id": node_id,
        "controller.quorum.voters": ",".join(
            f"{number}@{HOST}:{p.controller}" for number, p in enumerate(ports, start=1)
        ),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": listeners[0].name,
        "listeners": ",".join(f"{each.name}://{HOST}:{each.port}" for each in listeners),
        "advertised.listeners": ",".join(f"{e.name}://{HOST}:{e.advertised}" for e in told),
        "listener.security.protocol.map": ",".join(f"{e.name}:{e.protocol}" for e in listeners),
        "log.dirs": data,
    }
    return "".join(f"{key}={escaped(value)}\n" for key, value in settings.items())


def log_configuration(version: str, log_file: Path) -> tuple[str, str]:
    """Return the system property that names a log configuration file, and that file's text."""
    if version.startswith("3."):
        return "log4j.configuration", _LOG4J_1.format(file=escaped(log_file))
    return "log4j2.configurationFile", _LOG4J_2.format(file=escaped(log_file))


def jvm_options(nodes: int) -> tuple[str, ...]:
    """Return heap, collector and compiler: what starts first and takes least of a small machine.

    Measured on two cores: without the second compiler three nodes are ready in 6.5 s instead of 10,
    and the first gigabytes are written faster, because it competes with the brokers for the cores.
    """
    heap = "512m" if nodes == 1 else "384m"
    return (f"-Xmx{heap}", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def escaped(value: object) -> str:
    """Return a value as Java reads it from a properties file, which is Latin-1 by definition."""
    text = str(value).replace("\\", "\\\\").replace("\n", "\\n")
    return "".join(character if character.isascii() else _unicode(character) for character in text)


def _unicode(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


_LOG4J_2 = """\
status=error
shutdownHook=disable
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={file}
appender.file.filePattern={file}.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d{{ISO8601}} %-5p %c{{1}} - %m%n
appender.file.policies.type=SizeBasedTriggeringPolicy
appender.file.policies.size=16MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=2
rootLogger.level=info
rootLogger.appenderRef.file.ref=file
"""

_LOG4J_1 = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File={file}
log4j.appender.file.MaxFileSize=16MB
log4j.appender.file.MaxBackupIndex=2
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d{{ISO8601}} %-5p %c{{1}} - %m%n
"""
