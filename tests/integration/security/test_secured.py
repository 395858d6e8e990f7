"""Clients and a cluster that asks who is there: who comes in, and what the others are told."""

import base64
import json
import logging
import pickle
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from integration.security.conftest import PASSWORD
from support.rights import in_batch_scope, names
from support.secured import prefixed
from support.sinks import Run, batches
from support.waiting import wait_until

from twophase.embedded.certificates import Authority
from twophase.errors import AccessDenied, ConfigurationError, StoreUnavailable
from twophase.kafka import options as kafka_options
from twophase.kafka.options import KafkaOptions
from twophase.kafka.sasl import _WithoutCredentials
from twophase.kafka.wire import Wire

KEY_PASSWORD = "key-password-7d1f"
ODD_NAME = "ali=ce,1"
# What is refused for good must not take a tenth of this; what may be a broker that is down does.
PATIENCE = {"max_block_ms": 120_000}
QUICK_S = 12.0
SCRAM = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}


def brokers(options, token_provider=None, **more):
    """Return how many brokers a client learns of, with options that travelled by pickle."""
    given = prefixed(options, **(PATIENCE | more))
    parsed = KafkaOptions.parse(given, token_provider=token_provider)
    with Wire(pickle.loads(pickle.dumps(parsed))) as wire:
        return len(wire.nodes())


def refused(options, kind, **more):
    """Return what a client is told that is refused for good: one sentence, soon."""
    began = time.monotonic()
    with pytest.raises(kind) as caught:
        brokers(options, **more)
    assert time.monotonic() - began < QUICK_S
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.fixture(scope="module")
def scram_user(super_user):
    """A user whose name has characters that SCRAM gives a meaning to."""
    admin = super_user.admin
    for mechanism in SCRAM.values():
        credential = ScramCredentialInfo(mechanism, 4096)
        wanted = UserScramCredentialUpsertion(ODD_NAME, credential, PASSWORD.encode())
        admin.alter_user_scram_credentials([wanted])[ODD_NAME].result(timeout=30)

    def known():
        # Until the broker knows the first one, it knows nobody of this name.
        with suppress(KafkaException):
            found = admin.describe_user_scram_credentials([ODD_NAME])[ODD_NAME].result(timeout=30)
            return len(found.scram_credential_infos) == len(SCRAM)

    wait_until(known, 30)
    return ODD_NAME


@pytest.fixture
def by_password(secured, scram_user):
    """A function that makes the options of a password, over a listener that asks for one."""

    def make(mechanism, password=PASSWORD):
        options = secured.client_options("etl", "SASL_PLAINTEXT", "PLAIN")
        user = "etl" if mechanism == "PLAIN" else scram_user
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        quoted = password.replace("\\", "\\\\").replace('"', '\\"')
        jaas = f'org.apache.kafka.common.security.{module} required username="{user}"'
        jaas += f' password="{quoted}";'
        return options | {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}

    return make


def said_in(caplog):
    """Return what was logged, letter by letter: PySpark can make pytest's own text JSON."""
    return "\n".join(record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_password_opens_the_door_and_stays_out_of_the_log(by_password, mechanism, caplog):
    """With quotes and backslashes in the password; kafka-python's DEBUG log does not have it."""
    caplog.set_level(logging.DEBUG)
    assert brokers(by_password(mechanism)) == 1
    assert "SASL" in said_in(caplog)
    for hidden in (PASSWORD, repr(PASSWORD)[1:-1], PASSWORD.encode().hex()):
        assert hidden not in said_in(caplog)
    caplog.clear()
    said = refused(by_password(mechanism, "hunter2-wrong"), AccessDenied)
    assert "refuses the credentials of kafka.sasl.jaas.config" in said
    assert "hunter2" not in said_in(caplog) + said


def test_without_the_filter_the_log_would_have_the_password(by_password, monkeypatch, caplog):
    """What the test above proves is not so by itself: kafka-python logs the bytes it sends."""
    monkeypatch.setattr(_WithoutCredentials, "filter", lambda *_: True)
    caplog.set_level(logging.DEBUG)
    assert brokers(by_password("PLAIN")) == 1
    assert repr(PASSWORD)[1:-1] in said_in(caplog)


def unsecured_token():
    """Return a token that a broker without an identity provider accepts."""
    now = time.time()
    claims = {"sub": "alice", "iat": now, "exp": now + 600}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, claims)
    ]
    return ".".join([*parts, ""])


def test_token_provider_opens_the_door(secured, caplog):
    """OAUTHBEARER with a token from a Python function, which travelled by pickle."""
    caplog.set_level(logging.DEBUG)
    options = secured.client_options("etl", "SASL_PLAINTEXT", "PLAIN")
    del options["sasl.jaas.config"]
    assert brokers(options, token_provider=unsecured_token, sasl_mechanism="OAUTHBEARER") == 1
    assert unsecured_token().split(".")[0] not in said_in(caplog)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_password_over_tls(secured, mechanism):
    """SASL_SSL joins both; the authority is a PEM file, or the text itself."""
    options = secured.client_options("etl", "SASL_SSL", mechanism)
    assert brokers(options) == 1
    inline = {"ssl.truststore.certificates": secured.secured.authority_file.read_text()}
    del options["ssl.truststore.location"]
    assert brokers(options | inline) == 1


def test_mutual_tls(secured):
    """The client shows a certificate: key and chain in a file, or inline."""
    options = secured.client_options("etl", "SSL")
    assert brokers(options) == 1
    pem = secured.secured.key_file("etl").read_text()
    at = pem.index("-----BEGIN CERTIFICATE")
    inline = {"ssl.keystore.key": pem[:at], "ssl.keystore.certificate.chain": pem[at:]}
    del options["ssl.keystore.location"]
    assert brokers(options | inline) == 1


def test_a_certificate_that_the_broker_refuses(secured, tmp_path):
    """None at all, and one of another authority whose key has a password."""
    options = secured.client_options("etl", "SSL")
    without = {key: value for key, value in options.items() if "keystore" not in key}
    said = refused(without, AccessDenied)
    assert "refuses a client without a certificate" in said
    assert "kafka.ssl.keystore.location" in said
    other = tmp_path / "other.pem"
    other.write_text(Authority("other").issue("etl", password=KEY_PASSWORD).pem)
    theirs = options | {"ssl.keystore.location": str(other), "ssl.key.password": KEY_PASSWORD}
    assert "refuses the client's certificate" in refused(theirs, AccessDenied)


def test_a_broker_that_is_not_trusted(secured, tmp_path):
    """Its authority is unknown here: told at once, with what to give."""
    stranger = tmp_path / "stranger.pem"
    stranger.write_text(Authority("stranger").pem)
    options = secured.client_options("etl") | {"ssl.truststore.location": str(stranger)}
    said = refused(options, ConfigurationError)
    assert "is from no authority that is trusted here" in said
    assert "kafka.ssl.truststore.location" in said


def test_host_name_is_checked_unless_turned_off(secured, caplog):
    """The certificate is for 127.0.0.1 only; an empty algorithm lets `localhost` pass, warned."""
    kafka_options._warn_once.cache_clear()
    options = secured.client_options("etl")
    options["bootstrap.servers"] = options["bootstrap.servers"].replace("127.0.0.1", "localhost")
    said = refused(options, ConfigurationError)
    assert "certificate is not valid for 'localhost'" in said
    assert "host names are not checked" not in caplog.text
    assert brokers(options | {"ssl.endpoint.identification.algorithm": ""}) == 1
    assert "host names are not checked" in caplog.text


def test_plain_without_tls_warns_once(secured, caplog):
    """SCRAM does not, PLAIN with TLS does not; a second sink in the process neither."""
    kafka_options._warn_once.cache_clear()
    assert brokers(secured.client_options("etl", "SASL_SSL", "PLAIN")) == 1
    assert brokers(secured.client_options("etl", "SASL_PLAINTEXT", "SCRAM-SHA-512")) == 1
    assert "without TLS" not in caplog.text
    for _ in range(2):
        assert brokers(secured.client_options("etl", "SASL_PLAINTEXT", "PLAIN")) == 1
    assert caplog.text.count("everybody on the way reads the password") == 1


def test_the_wrong_protocol_for_a_port(secured):
    """Each is told by name, at once where that is certain."""
    password = secured.client_options("etl")
    said = refused({"bootstrap.servers": password["bootstrap.servers"]}, ConfigurationError)
    assert "speaks TLS on this port, and kafka.security.protocol is PLAINTEXT" in said
    certificate = secured.client_options("etl", "SSL")
    both = password | certificate | {"security.protocol": "SASL_SSL"}
    assert "asks for no password on this port" in refused(both, ConfigurationError)
    # These may be a broker that goes down, so they are tried until time runs out.
    plain = secured.client_options("etl", "SASL_PLAINTEXT")["bootstrap.servers"]
    with pytest.raises(StoreUnavailable, match="a port that asks for a password does so"):
        brokers({"bootstrap.servers": plain}, max_block_ms=5_000)
    with pytest.raises(StoreUnavailable, match="a port without TLS does so"):
        brokers(password | {"bootstrap.servers": plain}, max_block_ms=5_000)


def test_a_try_that_the_clock_cuts_off_hides_no_reason():
    """What the one before it has met is told: here the end of a handshake, and then silence."""
    held = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)

        def serve():
            with suppress(OSError):
                ended, _ = listener.accept()
                with ended:
                    ended.recv(65_536)
                while True:
                    held.append(listener.accept()[0])

        thread = threading.Thread(target=serve)
        thread.start()
        options = {
            "bootstrap.servers": f"127.0.0.1:{listener.getsockname()[1]}",
            "security.protocol": "SSL",
        }
        with pytest.raises(StoreUnavailable, match="a port without TLS does so"):
            brokers(options, max_block_ms=5_000)
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(15)
    assert held
    for silent in held:
        silent.close()


@contextmanager
def tls_server(certificate, folder):
    """Answer handshakes with this certificate, as any listener would; yield its address."""
    pem = folder / "server.pem"
    pem.write_text(certificate.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def serve():
            with suppress(OSError):
                while True:
                    plain, _ = listener.accept()
                    with suppress(OSError), plain:
                        context.wrap_socket(plain, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(15)


def test_an_expired_certificate(tmp_path):
    """It is told so at once, and not taken for an unknown authority."""
    authority = Authority()
    (tmp_path / "authority.pem").write_text(authority.pem)
    trust = {"ssl.truststore.location": str(tmp_path / "authority.pem")}
    trust |= {"ssl.truststore.type": "PEM", "security.protocol": "SSL"}
    with tls_server(authority.issue("broker", ["127.0.0.1"], days=-1), tmp_path) as address:
        said = refused(trust | {"bootstrap.servers": address}, ConfigurationError)
    assert "certificate has expired" in said


def test_one_of_two_addresses_is_enough(secured):
    """A port that refuses this client is no reason to stop while another one takes it."""
    options = secured.client_options("etl")
    wrong = secured.client_options("etl", "SSL")["bootstrap.servers"]
    both = f"{wrong},{options['bootstrap.servers']}"
    for _ in range(4):
        assert brokers(options | {"bootstrap.servers": both}) == 1
    # Where the other one is down it may come back; the refusal is told beside that.
    told = "one address refuses: .* refuses a client without a certificate"
    with pytest.raises(StoreUnavailable, match=told):
        brokers(options | {"bootstrap.servers": f"127.0.0.1:1,{wrong}"}, max_block_ms=4_000)


def test_batch_scope_needs_these_and_no_more(super_user, etl_wire):
    """Each missing one is named, and the same driver writes the batch once after the grant."""
    topic, name, rights = in_batch_scope(super_user, etl_wire)
    # So does a driver that is started while one is missing, and one after it.
    for number, right in enumerate(rights, start=len(rights) + 1):
        super_user.revoke("etl", right)
        with pytest.raises(AccessDenied) as caught:
            Run(etl_wire, name, topic, "query-a").write(number)
        assert names(right, caught.value), f"{right}: {caught.value}"
        super_user.grant("etl", right)
        Run(etl_wire, name, topic, "query-a").write(number)
    assert super_user.values(topic) == batches(*range(2 * len(rights) + 1))


def test_one_address_that_refuses_says_nothing_of_those_that_are_down(by_password):
    """A restart may help, so it is no mistake of the settings; both are named."""
    wrong = by_password("PLAIN", "hunter2-wrong")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        closed = nobody.getsockname()[1]
    both = {"bootstrap.servers": f"{wrong['bootstrap.servers']},127.0.0.1:{closed}"}
    said = refused(wrong | both, StoreUnavailable, max_block_ms=4_000)
    assert "one address refuses: " in said
    assert "refuses the credentials of kafka.sasl.jaas.config" in said
    assert "hunter2" not in said
    refused(wrong, AccessDenied)
