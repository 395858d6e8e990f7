"""The Kafka options that mean something here: how each is read, its default, what it does.

Names are Java's, without Spark's prefix `kafka.`. `docs/options.md` is checked against this table;
what is refused or ignored is in `unmapped_options`.
"""

import re
from collections.abc import Mapping

from twophase.options import INT_MAX, LONG_MAX, PATH, TEXT, Kind, Option, choice, integer

PREFIX = "kafka."

_SERVER = re.compile(
    r"(?:[0-9A-Za-z_+.\-]+://)?(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[0-9A-Za-z_.%\-]+):(?P<port>[0-9]{1,5})"
)


def _servers(text: str) -> tuple[str, ...]:
    found = [_SERVER.fullmatch(part.strip()) for part in text.split(",") if part.strip()]
    servers = tuple(f"{server['host']}:{int(server['port'])}" for server in found if server)
    ports = [int(server["port"]) for server in found if server]
    if not found or len(servers) != len(found) or not all(0 < port < 2**16 for port in ports):
        raise ValueError
    return servers


def _protocols(text: str) -> tuple[str, ...]:
    known = {"tlsv1.2": "TLSv1.2", "tlsv1.3": "TLSv1.3"}
    found = [part.strip().lower() for part in text.split(",") if part.strip()]
    if not found or not set(found) <= set(known):
        raise ValueError
    return tuple(sorted({known[part] for part in found}))


_MILLISECONDS = integer(1, INT_MAX, "milliseconds")
_BACKOFF = integer(0, LONG_MAX, "milliseconds")
_SOCKET_BUFFER = integer(-1, INT_MAX, "bytes")
_MECHANISMS = (
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "GSSAPI",
    "AWS_MSK_IAM",
)

CLIENT = (
    Option(
        "bootstrap.servers",
        "bootstrap_servers",
        Kind("host:port pairs separated by commas", _servers),
        None,
        "where the first connection goes; required",
    ),
    Option(
        "client.id",
        "client_id",
        TEXT,
        "twophase",
        "the name in the broker's request log and quotas",
        java="empty",
    ),
    Option(
        "client.dns.lookup",
        "client_dns_lookup",
        choice(
            {name: name for name in ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")}
        ),
        "use_all_dns_ips",
        "how host names are resolved",
    ),
    Option(
        "acks",
        "acks",
        choice({"all": -1, "-1": -1, "1": 1, "0": 0}),
        "all",
        "who must have a block before it counts as written: all; with the guarantee none, 1 unless"
        " all is asked for; 0 is refused",
    ),
    Option(
        "compression.type",
        "compression",
        choice({name: name for name in ("none", "gzip", "snappy", "lz4", "zstd")}),
        "lz4",
        "how blocks are compressed, on the executors; one that would grow is left as it is",
        java="none",
    ),
    Option(
        "compression.gzip.level",
        "gzip_level",
        choice({"-1": None} | {str(level): level for level in range(1, 10)}),
        "-1",
        "used with gzip; -1 is the codec's own default",
    ),
    Option(
        "compression.lz4.level",
        "lz4_level",
        integer(1, 17),
        "9",
        "used with lz4; as in Java, 9 stands for the fast compressor",
    ),
    Option(
        "compression.zstd.level",
        "zstd_level",
        integer(-131072, 22),
        "1",
        "used with zstd; 1 makes JSON rows as small as 3 does, and is faster",
        java="3",
    ),
    Option(
        "transaction.timeout.ms",
        "transaction_timeout_ms",
        _MILLISECONDS,
        "60000",
        "after this the broker aborts an open transaction; at most the broker's own maximum",
    ),
    Option(
        "request.timeout.ms",
        "request_timeout_ms",
        _MILLISECONDS,
        "30000",
        "how long one request waits for its answer",
    ),
    Option(
        "delivery.timeout.ms",
        "delivery_timeout_ms",
        _MILLISECONDS,
        "120000",
        "how long a block is tried, over all its requests; at least request.timeout.ms",
    ),
    Option(
        "max.block.ms",
        "max_block_ms",
        _MILLISECONDS,
        "60000",
        "how long brokers, leaders and coordinators are looked for and asked until they decide",
    ),
    Option("retry.backoff.ms", "retry_backoff_ms", _BACKOFF, "100", "the first pause of a retry"),
    Option(
        "retry.backoff.max.ms",
        "retry_backoff_max_ms",
        _BACKOFF,
        "1000",
        "the longest pause of a retry; pauses double up to it",
    ),
    Option(
        "max.in.flight.requests.per.connection",
        "max_in_flight",
        integer(1, 5),
        "5",
        "unanswered requests per connection; above 5 the broker cannot recognise repeats",
    ),
    Option(
        "buffer.memory",
        "buffer_memory_bytes",
        integer(1, LONG_MAX, "bytes"),
        "33554432",
        "unsent blocks that one sender holds; a full buffer makes the writer wait",
    ),
    Option(
        "max.request.size",
        "max_request_bytes",
        integer(1, INT_MAX, "bytes"),
        "1048576",
        "the largest record and the largest request; a larger row is refused by name",
    ),
    Option(
        "batch.size",
        "block_bytes",
        integer(1, INT_MAX, "bytes"),
        "1000000",
        "the size at which a block is cut; Java's default would make very small blocks",
        java="16384",
    ),
    Option(
        "metadata.max.age.ms",
        "metadata_max_age_ms",
        integer(1, LONG_MAX, "milliseconds"),
        "300000",
        "after this topics and leaders are asked for again",
    ),
    Option(
        "reconnect.backoff.ms",
        "reconnect_backoff_ms",
        _BACKOFF,
        "50",
        "the first pause before a lost connection is made again",
    ),
    Option(
        "reconnect.backoff.max.ms",
        "reconnect_backoff_max_ms",
        _BACKOFF,
        "1000",
        "the longest such pause",
    ),
    Option(
        "connections.max.idle.ms",
        "connections_max_idle_ms",
        integer(-1, LONG_MAX, "milliseconds"),
        "540000",
        "after this an unused connection is closed; -1 keeps it",
    ),
    Option(
        "socket.connection.setup.timeout.ms",
        "socket_setup_timeout_ms",
        _MILLISECONDS,
        "10000",
        "how long one attempt to connect may take",
    ),
    Option(
        "socket.connection.setup.timeout.max.ms",
        "socket_setup_timeout_max_ms",
        _MILLISECONDS,
        "30000",
        "the longest such time after repeated failures",
    ),
    Option(
        "send.buffer.bytes",
        "send_buffer_bytes",
        _SOCKET_BUFFER,
        "-1",
        "the socket's send buffer; -1 leaves it to the operating system",
        java="131072",
    ),
    Option(
        "receive.buffer.bytes",
        "receive_buffer_bytes",
        _SOCKET_BUFFER,
        "-1",
        "the socket's receive buffer; -1 leaves it to the operating system",
        java="32768",
    ),
    Option(
        "partitioner.ignore.keys",
        "partitioner_ignore_keys",
        choice({"false": False}),
        "false",
        "a key decides the partition, as in Java; to place rows otherwise write `partition`",
    ),
)

_STORE_TYPE = Kind("PEM", str.upper)

SECURITY = (
    Option(
        "security.protocol",
        "protocol",
        choice({name: name for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}),
        "PLAINTEXT",
        "whether the connection is encrypted (SSL) and authenticated (SASL)",
    ),
    Option(
        "sasl.mechanism",
        "mechanism",
        choice({name: name for name in _MECHANISMS}),
        "GSSAPI",
        "how the client proves who it is, with SASL_PLAINTEXT and SASL_SSL",
    ),
    Option(
        "sasl.jaas.config",
        "jaas",
        TEXT,
        None,
        "PlainLoginModule or ScramLoginModule with username and password; Krb5LoginModule",
        secret=True,
    ),
    Option(
        "sasl.kerberos.service.name",
        "kerberos_service_name",
        TEXT,
        None,
        "the brokers' Kerberos service, with GSSAPI; or serviceName in sasl.jaas.config",
    ),
    Option(
        "ssl.truststore.type",
        "truststore_type",
        _STORE_TYPE,
        None,
        "the format of the store; Java's own cannot be read here",
        java="JKS",
    ),
    Option(
        "ssl.truststore.location",
        "truststore_location",
        PATH,
        None,
        "a PEM file with the certificates to trust, at this path on driver and executors",
    ),
    Option(
        "ssl.truststore.certificates",
        "truststore_certificates",
        TEXT,
        None,
        "the same certificates inline; with neither, those of the operating system",
        secret=True,
    ),
    Option(
        "ssl.truststore.password",
        "truststore_password",
        TEXT,
        None,
        "refused with PEM, as in Java: certificates are not secret",
        secret=True,
    ),
    Option(
        "ssl.keystore.type",
        "keystore_type",
        _STORE_TYPE,
        None,
        "the format of the store; Java's own cannot be read here",
        java="JKS",
    ),
    Option(
        "ssl.keystore.location",
        "keystore_location",
        PATH,
        None,
        "a PEM file with private key and certificate chain, on driver and executors",
    ),
    Option(
        "ssl.keystore.key",
        "keystore_key",
        TEXT,
        None,
        "the private key inline, with ssl.keystore.certificate.chain",
        secret=True,
    ),
    Option(
        "ssl.keystore.certificate.chain",
        "keystore_chain",
        TEXT,
        None,
        "the certificate chain inline, the client's own first",
        secret=True,
    ),
    Option(
        "ssl.keystore.password",
        "keystore_password",
        TEXT,
        None,
        "refused with PEM, as in Java: write ssl.key.password",
        secret=True,
    ),
    Option(
        "ssl.key.password",
        "key_password",
        TEXT,
        None,
        "opens an encrypted private key",
        secret=True,
    ),
    Option(
        "ssl.endpoint.identification.algorithm",
        "check_hostname",
        choice({"https": True, "": False}),
        "https",
        "empty turns the check of the broker's host name off",
    ),
    Option(
        "ssl.enabled.protocols",
        "tls_versions",
        Kind("TLSv1.2, TLSv1.3 or both separated by a comma", _protocols),
        "TLSv1.2,TLSv1.3",
        "the TLS versions to offer",
    ),
)

OPTIONS: Mapping[str, Option] = {option.name: option for option in (*CLIENT, *SECURITY)}
