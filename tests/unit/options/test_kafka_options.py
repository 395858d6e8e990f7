"""Options as Spark and Java users write them, in types."""

import dataclasses
import logging
import pickle
import socket

import pytest
from kafka.net.manager import KafkaConnectionManager

from twophase.errors import ConfigurationError
from twophase.kafka.option_table import CLIENT, OPTIONS, SECURITY
from twophase.kafka.options import KafkaOptions
from twophase.kafka.security import Security
from twophase.kafka.unmapped_options import IGNORED, REFUSED

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}
SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": 'ScramLoginModule required username="u" password="p";',
}


def parse(**options: object) -> KafkaOptions:
    """Parse options whose dots are written as underscores, with a broker added."""
    return KafkaOptions.parse(
        SERVERS | {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    )


def refusal(options: dict) -> str:
    """Return the text of the refusal."""
    with pytest.raises(ConfigurationError) as caught:
        KafkaOptions.parse(options)
    return str(caught.value)


def test_defaults_are_java_s_where_they_make_sense_here():
    """Without options the sink writes as a Java producer with transactions would."""
    options = KafkaOptions.parse(SERVERS)

    assert options.bootstrap_servers == ("broker:9092",)
    assert (options.acks, options.compression, options.compression_level) == (-1, "lz4", None)
    assert (options.transaction_timeout_ms, options.request_timeout_ms) == (60_000, 30_000)
    assert (options.delivery_timeout_ms, options.max_block_ms) == (120_000, 60_000)
    assert (options.buffer_memory_bytes, options.max_request_bytes) == (33_554_432, 1_048_576)
    assert (options.block_bytes, options.max_in_flight) == (1_000_000, 5)
    assert options.security == Security()
    assert options.ignored == ()
    assert options.given == {"bootstrap.servers"}


@pytest.mark.parametrize(
    ("name", "written", "field", "value"),
    [
        ("bootstrap_servers", "a:1, b:2 ,", "bootstrap_servers", ("a:1", "b:2")),
        ("bootstrap_servers", "SSL://[::1]:9093", "bootstrap_servers", ("[::1]:9093",)),
        ("client_id", "jobs", "client_id", "jobs"),
        ("acks", "-1", "acks", -1),
        ("acks", "all", "acks", -1),
        ("acks", 1, "acks", 1),
        ("acks", 0, "acks", 0),
        ("compression_type", "ZSTD", "compression", "zstd"),
        ("transaction_timeout_ms", "900000", "transaction_timeout_ms", 900_000),
        ("batch_size", 16384, "block_bytes", 16_384),
        ("buffer_memory", "67108864", "buffer_memory_bytes", 67_108_864),
        ("max_request_size", "10485760", "max_request_bytes", 10_485_760),
        ("max_in_flight_requests_per_connection", 1, "max_in_flight", 1),
        ("retry_backoff_max_ms", "5000", "retry_backoff_max_ms", 5000),
        ("send_buffer_bytes", "-1", "send_buffer_bytes", -1),
        ("partitioner_ignore_keys", "false", "compression", "lz4"),
    ],
)
def test_values_become_types(name, written, field, value):
    """Each option is read from text, and from Python's own types."""
    assert getattr(parse(**{name: written}), field) == value


@pytest.mark.parametrize(
    ("codec", "level", "expected"),
    [
        ("gzip", "6", 6),
        ("gzip", "-1", None),
        ("lz4", "9", None),
        ("lz4", "12", 12),
        ("zstd", "-7", -7),
        ("zstd", "3", 3),
        ("none", "3", None),
        ("snappy", "3", None),
    ],
)
def test_compression_level_is_that_of_the_chosen_codec(codec, level, expected):
    """A level of another codec changes nothing; LZ4's 9 is Java's word for its fast compressor."""
    leveled = codec if codec in {"gzip", "lz4", "zstd"} else "zstd"
    options = parse(**{"compression_type": codec, f"compression_{leveled}_level": level})

    assert options.compression_level == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bootstrap.servers", ""),
        ("bootstrap.servers", "broker"),
        ("bootstrap.servers", "broker:0"),
        ("bootstrap.servers", "broker:65536"),
        ("bootstrap.servers", "good:1,bad"),
        ("acks", "2"),
        ("acks", True),
        ("compression.type", "brotli"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("max.in.flight.requests.per.connection", "6"),
        ("request.timeout.ms", "30s"),
        ("transaction.timeout.ms", "0"),
        ("batch.size", "0"),
        ("client.id", ""),
        ("partitioner.ignore.keys", "true"),
        ("security.protocol", "TLS"),
        ("sasl.mechanism", "LDAP"),
        ("ssl.enabled.protocols", "TLSv1.1"),
        ("ssl.endpoint.identification.algorithm", "ldaps"),
    ],
)
def test_wrong_values_are_told(name, value):
    """The refusal names the key, the value and what is allowed."""
    text = refusal(SERVERS | {f"kafka.{name}": value})

    assert text.startswith(f"TWOPHASE_CONFIGURATION: kafka.{name}=")
    assert str(value).lower() in text.lower()
    assert OPTIONS[name].kind.allowed in text


def test_a_broker_is_required():
    """Without one the refusal says what to write."""
    assert "kafka.bootstrap.servers is missing; write host:port" in refusal({})


def test_names_do_not_know_case_but_are_given_once():
    """As in Spark; the same name twice is a mistake, not a matter of order."""
    assert KafkaOptions.parse({"Kafka.Bootstrap.Servers": "a:1"}).bootstrap_servers == ("a:1",)
    assert "given twice" in refusal(SERVERS | {"KAFKA.bootstrap.servers": "b:1"})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("kafka.ack", "kafka.acks"),
        ("kafka.compression", "kafka.compression.type"),
        ("kafka.transaction.timeout", "kafka.transaction.timeout.ms"),
        ("kafka.sasl.jaas.conf", "kafka.sasl.jaas.config"),
        ("kafka.ssl.key.pasword", "kafka.ssl.key.password"),
        ("kafka.linger", "kafka.linger.ms"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(written, meant):
    """The value is not shown: nobody knows whether it is a secret."""
    text = refusal(SERVERS | {written: "hunter2"})

    assert f"did you mean {meant}?" in text
    assert f"'{written}'" in text
    assert "hunter2" not in text


def test_prefix_is_demanded():
    """A Kafka option without it is told to have it; anything else is unknown."""
    assert "write it with the prefix: kafka.acks" in refusal(SERVERS | {"acks": "all"})
    assert "'checkpointLocation' is not an option" in refusal(SERVERS | {"checkpointLocation": "x"})


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_the_sink_owns_is_refused_with_the_reason(name):
    """Whatever its value is."""
    assert REFUSED[name] in refusal(SERVERS | {f"kafka.{name}": "true"})
    assert "names Java code to load" in refusal(
        SERVERS | {"kafka.config.providers.vault.class": "x"}
    )


def test_ignored_options_give_one_warning(caplog):
    """One line lists them all, without their values, and the options remember them."""
    with caplog.at_level(logging.WARNING, "twophase.options"):
        options = parse(linger_ms=20, retries=3, group_id="g", metrics_context_x="hunter2")

    (record,) = (found for found in caplog.records if found.name == "twophase.options")
    assert "kafka.group.id, kafka.linger.ms, kafka.metrics.context.x, kafka.retries" in (
        record.getMessage()
    )
    assert options.ignored == tuple(
        f"kafka.{name}" for name in ("group.id", "linger.ms", "metrics.context.x", "retries")
    )
    assert "hunter2" not in caplog.text


def test_every_ignored_option_is_accepted():
    """All of Java's producer and consumer options are known by name."""
    options = KafkaOptions.parse(SERVERS | {f"kafka.{name}": "x" for name in IGNORED})

    assert len(options.ignored) == len(IGNORED)


def test_security_without_a_protocol_that_uses_it_is_ignored_aloud(caplog):
    """Whoever forgets security.protocol is told that the rest has no effect."""
    options = parse(sasl_mechanism="PLAIN", ssl_truststore_location="/t.jks")

    assert options.ignored == ("kafka.sasl.mechanism", "kafka.ssl.truststore.location")
    assert "kafka.sasl.mechanism" in caplog.text
    assert options.security == Security()


@pytest.mark.parametrize(
    ("given", "unused"),
    [
        ({"compression.type": "zstd", "compression.zstd.level": "3"}, ()),
        ({"compression.type": "zstd", "compression.gzip.level": "3"}, ("compression.gzip.level",)),
        # Without a codec it is lz4.
        ({"compression.zstd.level": "3"}, ("compression.zstd.level",)),
        ({"security.protocol": "SSL", "ssl.key.password": "p"}, ("ssl.key.password",)),
        (SCRAM | {"sasl.kerberos.service.name": "kafka"}, ("sasl.kerberos.service.name",)),
        (SCRAM, ()),
    ],
)
def test_options_that_mean_nothing_beside_the_others(given, unused, caplog):
    """A level of another codec, a key's pass phrase without a key: told like those of no use."""
    options = KafkaOptions.parse(SERVERS | {f"kafka.{name}": text for name, text in given.items()})
    assert options.ignored == tuple(f"kafka.{name}" for name in unused)
    assert all(name in caplog.text for name in options.ignored)
    assert ("without effect" in caplog.text) == bool(unused)


def test_delivery_timeout_covers_a_request():
    """Given, it must; not given, it is raised, as Java does."""
    assert parse(request_timeout_ms=300_000).delivery_timeout_ms == 300_000
    assert "less than kafka.request.timeout.ms=30000" in refusal(
        SERVERS | {"kafka.delivery.timeout.ms": "1000"}
    )


def test_options_travel(caplog):
    """They are plain data: equal after pickling, hashable, with a repr."""
    options = parse(compression_type="zstd", client_id="jobs")

    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(options) == hash(parse(compression_type="zstd", client_id="jobs"))
    assert "client_id='jobs'" in repr(options)
    assert not [found for found in caplog.records if found.name.startswith("twophase")]


def test_settings_are_those_of_the_connection_layer():
    """kafka-python knows every setting by name."""
    settings = parse(
        send_buffer_bytes=65536, connections_max_idle_ms=-1, max_in_flight_requests_per_connection=2
    ).connection_settings()

    assert set(settings) <= set(KafkaConnectionManager.DEFAULT_CONFIG)
    assert settings["bootstrap_servers"] == ["broker:9092"]
    assert settings["security_protocol"] == "PLAINTEXT"
    assert (socket.SOL_SOCKET, socket.SO_SNDBUF, 65536) in settings["socket_options"]
    assert settings["connections_max_idle_ms"] > 10**9
    assert "ssl_context" not in settings
    assert "sasl_mechanism" not in settings


def test_table_and_value_agree():
    """Every option of the table has its field, every field its option."""
    derived = {"gzip_level", "lz4_level", "zstd_level", "partitioner_ignore_keys"}
    fields = {field.name for field in dataclasses.fields(KafkaOptions)}

    assert {option.field for option in CLIENT} - derived == fields - {
        "compression_level",
        "security",
        "given",
        "ignored",
    }
    assert len(CLIENT) + len(SECURITY) == len(OPTIONS)
    assert not set(OPTIONS) & set(REFUSED)
    assert not (set(OPTIONS) | set(REFUSED)) & set(IGNORED)
    for option in OPTIONS.values():
        option.default_value()
