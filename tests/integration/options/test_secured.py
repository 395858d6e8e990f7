"""Options as Java users write them open connections to a broker that asks for them."""

import logging
import pickle
from collections.abc import Iterator

import pytest
from integration.options.certificates import KEY_PASSWORD, Certificates
from integration.options.secured import (
    PASSWORD,
    Secured,
    brokers,
    jaas,
    secured_broker,
    unsecured_token,
)

from twophase.errors import AccessDenied, StoreUnavailable
from twophase.kafka.options import KafkaOptions
from twophase.kafka.sasl import _WithoutCredentials

# For what is refused at each try until the time is up.
BRIEF = {"max.block.ms": "3000"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def secured(made: Certificates) -> Iterator[Secured]:
    """Run the broker once for all tests of this file."""
    with pytest.MonkeyPatch.context() as monkeypatch, secured_broker(made, monkeypatch) as broker:
        yield broker


def options(address: str, protocol: str, more: dict[str, str], **others: object) -> KafkaOptions:
    """Return parsed options, as an executor gets them: through pickle."""
    written = {"bootstrap.servers": address, "security.protocol": protocol}
    written |= {"max.block.ms": "30000"} | more
    parsed = KafkaOptions.parse({f"kafka.{k}": v for k, v in written.items()}, **others)
    return pickle.loads(pickle.dumps(parsed))


def sasl(mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    """Return the options of a user."""
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, password)}


def trust(made: Certificates) -> dict[str, str]:
    """Return the options that trust the authority."""
    return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(made.authority)}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_password_opens_the_door_and_stays_out_of_the_log(secured, mechanism, caplog):
    """With quotes and backslashes in the password; kafka-python's DEBUG log does not have it."""
    caplog.set_level(logging.DEBUG)

    assert brokers(options(secured.sasl_plaintext, "SASL_PLAINTEXT", sasl(mechanism))) == 1

    assert "SASL" in caplog.text
    for hidden in (PASSWORD, repr(PASSWORD)[1:-1], PASSWORD.encode().hex()):
        assert hidden not in caplog.text


def test_without_the_filter_the_log_would_have_the_password(secured, monkeypatch, caplog):
    """What the test above proves is not so by itself: kafka-python logs the bytes it sends."""
    monkeypatch.setattr(_WithoutCredentials, "filter", lambda *_: True)
    caplog.set_level(logging.DEBUG)

    assert brokers(options(secured.sasl_plaintext, "SASL_PLAINTEXT", sasl("PLAIN"))) == 1

    assert repr(PASSWORD)[1:-1] in caplog.text


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password_is_refused_without_being_told(secured, mechanism, caplog):
    """The broker refuses; neither error nor log holds what was tried."""
    caplog.set_level(logging.DEBUG)
    wrong = options(secured.sasl_plaintext, "SASL_PLAINTEXT", sasl(mechanism, "hunter2-wrong"))

    with pytest.raises(AccessDenied, match=r"Authentication failed|invalid credentials") as caught:
        brokers(wrong)

    assert "hunter2" not in caplog.text + str(caught.value)


def test_token_provider_opens_the_door(secured, caplog):
    """OAUTHBEARER with a token from a Python function, which travelled by pickle."""
    caplog.set_level(logging.DEBUG)
    opened = options(
        secured.sasl_plaintext,
        "SASL_PLAINTEXT",
        {"sasl.mechanism": "OAUTHBEARER"},
        token_provider=unsecured_token,
    )

    assert brokers(opened) == 1
    assert unsecured_token().split(".")[0] not in caplog.text


def test_password_over_tls(secured, made):
    """SASL_SSL joins both."""
    more = sasl("SCRAM-SHA-512") | trust(made)

    assert brokers(options(secured.sasl_ssl, "SASL_SSL", more)) == 1


@pytest.mark.parametrize("place", ["file", "inline"])
def test_trusted_authority(secured, made, place):
    """The trust store is a PEM file or the text itself."""
    more = trust(made)
    if place == "inline":
        pem = made.authority.read_text()
        more = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem}

    assert brokers(options(secured.ssl, "SSL", more)) == 1


@pytest.mark.parametrize("place", ["file", "inline"])
def test_mutual_tls(secured, made, place):
    """The client shows a certificate whose key is encrypted, from a file or inline."""
    more = trust(made) | {"ssl.keystore.type": "PEM", "ssl.key.password": KEY_PASSWORD}
    if place == "file":
        more |= {"ssl.keystore.location": str(made.client)}
    else:
        more |= {
            "ssl.keystore.key": made.client_key.read_text(),
            "ssl.keystore.certificate.chain": made.client_chain.read_text(),
        }

    assert brokers(options(secured.mutual, "SSL", more)) == 1


def test_without_a_client_certificate_the_broker_closes(secured, made):
    """The same listener, so that the test above proves something."""
    with pytest.raises(StoreUnavailable):
        brokers(options(secured.mutual, "SSL", trust(made) | BRIEF))


def test_unknown_authority_is_not_trusted(secured, made):
    """A certificate of somebody else's authority opens nothing."""
    more = trust(made) | {"ssl.truststore.location": str(made.stranger)} | BRIEF

    with pytest.raises(StoreUnavailable, match="certificate verify failed"):
        brokers(options(secured.ssl, "SSL", more))


def test_host_name_is_checked_unless_turned_off(secured, made):
    """The certificate is for 127.0.0.1 only; an empty algorithm lets `localhost` pass."""
    address = secured.ssl.replace("127.0.0.1", "localhost")

    with pytest.raises(StoreUnavailable, match="certificate is not valid for 'localhost'"):
        brokers(options(address, "SSL", trust(made) | BRIEF))
    unchecked = trust(made) | {"ssl.endpoint.identification.algorithm": ""}
    assert brokers(options(address, "SSL", unchecked)) == 1
