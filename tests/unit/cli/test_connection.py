"""How the commands find the brokers: options and files as Kafka's own tools take them."""

import click
import pytest

from twophase.cli.connection import kafka_options
from twophase.cli.main import run
from twophase.cli.properties import read_properties

SECURED = r"""
# A file as for kafka-consumer-groups.sh --command-config
security.protocol=SASL_SSL
sasl.mechanism = SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="orders" \
    password="p\u00e4ss=word";
ssl.truststore.type: PEM
ssl.truststore.location	/etc/kafka/authority.pem
request.timeout.ms=5000
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a:b\na: c", {"a": "c"}),
        ("a b", {"a": "b"}),
        ("a\tb=c", {"a": "b=c"}),
        ("  # a=b\n\t! c=d\n\n", {}),
        ("a", {"a": ""}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# c", {"a": "b# c"}),
        ("a=b\\", {"a": "b"}),
        (r"a\=b=c", {"a=b": "c"}),
        (r"a=\u00e4\tb\q", {"a": "ä\tbq"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("=x", {}),
    ],
)
def test_properties_as_java_reads_them(text, expected):
    """Comments, separators, continued lines and escapes mean what they mean to Java."""
    assert read_properties(text) == expected


def test_a_secured_connection(tmp_path):
    """The file's keys become the package's options, with all that is checked about those."""
    path = tmp_path / "client.properties"
    path.write_text(SECURED)
    found = kafka_options("broker-1:9093,broker-2:9093", path)
    assert found.bootstrap_servers == ("broker-1:9093", "broker-2:9093")
    assert found.security.protocol == "SASL_SSL"
    assert found.security.mechanism == "SCRAM-SHA-512"
    assert found.security.username == "orders"
    assert found.security.password.reveal() == "päss=word"
    assert found.request_timeout_ms == 5_000
    assert "päss" not in repr(found)


def test_a_file_of_old_encoding(tmp_path):
    """Latin-1, which Java writes, is read too."""
    path = tmp_path / "client.properties"
    path.write_bytes("client.id=b\xfcro\nbootstrap.servers=a:1".encode("latin-1"))
    found = kafka_options(None, path)
    assert (found.client_id, found.bootstrap_servers) == ("büro", ("a:1",))


def test_the_option_goes_before_the_file(tmp_path):
    """An address on the command line is the one that is meant; a person waits less than a sink."""
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=a:1\nmax.block.ms=1234")
    assert kafka_options("b:2", path).bootstrap_servers == ("b:2",)
    assert kafka_options("b:2", path).max_block_ms == 1_234
    assert kafka_options("b:2", None).max_block_ms == 20_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocol=TLS", "kafka.security.protocol"),
        ("secruity.protocol=SSL", "did you mean kafka.security.protocol"),
        (r"ssl.keystore.location=C:\users\key.pem", "four hexadecimal digits"),
    ],
)
def test_a_wrong_file_is_refused_by_name(text, said, tmp_path, capsys):
    """One sentence names the key or the file; nothing is connected to."""
    path = tmp_path / "client.properties"
    path.write_text(text)
    arguments = ["--bootstrap-server", "127.0.0.1:1", "--command-config", str(path)]
    assert run(["sinks", "show", "orders", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("TWOPHASE_CONFIGURATION: ")
    assert said in error


def test_no_address_at_all():
    """Kafka's own tools ask for it too."""
    with pytest.raises(click.UsageError, match="--bootstrap-server HOST:PORT"):
        kafka_options(None, None)


def test_a_file_that_is_not_there(capsys):
    """A usage error, which names the file."""
    assert run(["sinks", "show", "orders", "--command-config", "/no/such/file"]) == 2
    assert "/no/such/file" in capsys.readouterr().err
