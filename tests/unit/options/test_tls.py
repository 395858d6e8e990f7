"""PEM, from files and inline, becomes a TLS context, and no trace of a key stays on disk."""

import os
import ssl
import tempfile
from pathlib import Path

import pytest
from integration.options.certificates import (
    KEY_PASSWORD,
    Certificates,
    handshake,
    make_certificates,
)

from twophase.errors import ConfigurationError
from twophase.kafka.options import KafkaOptions

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9093", "kafka.security.protocol": "SSL"}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Certificates:
    """Make the certificates once."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def context(options: dict[str, str]) -> ssl.SSLContext:
    """Return the TLS context that the options give."""
    prefixed = {f"kafka.ssl.{name}": value for name, value in options.items()}
    return KafkaOptions.parse(BASE | prefixed).connection_settings()["ssl_context"]


def trust(made: Certificates) -> dict[str, str]:
    """Return the options that trust the test's authority."""
    return {"truststore.type": "PEM", "truststore.location": str(made.authority)}


def by_file(made: Certificates) -> dict[str, str]:
    """Return the options of a client whose key is in a file."""
    return {
        "keystore.type": "PEM",
        "keystore.location": str(made.client),
        "key.password": KEY_PASSWORD,
    }


def inline(made: Certificates) -> dict[str, str]:
    """Return the options of a client whose key is inline, on one line as properties have it."""
    return {
        "keystore.type": "PEM",
        "keystore.key": made.client_key.read_text().replace("\n", " "),
        "keystore.certificate.chain": made.client_chain.read_text().replace("\n", " "),
        "key.password": KEY_PASSWORD,
    }


@pytest.mark.parametrize("store", [by_file, inline])
def test_client_presents_its_certificate(made, store):
    """An encrypted key, in a file or inline on one line, opens with ssl.key.password."""
    assert handshake(made, context(trust(made) | store(made))) == "client"


@pytest.mark.parametrize("joint", ["\n", " ", "\r\n"])
def test_inline_authority_is_trusted(made, joint):
    """Whatever the line breaks became; several certificates are allowed."""
    pem = (made.stranger.read_text() + made.authority.read_text()).replace("\n", joint)
    options = {"truststore.type": "PEM", "truststore.certificates": pem}

    assert len(context(options).get_ca_certs()) == 2
    assert handshake(made, context(options | inline(made))) == "client"


@pytest.mark.parametrize("on_disk", [False, True])
def test_no_file_is_left(made, tmp_path, monkeypatch, on_disk):
    """The key is in memory alone, or where that cannot be, in its owner's file while it is loaded.

    In memory kill -9 leaves nothing of it either.
    """
    if on_disk:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif not hasattr(os, "memfd_create"):
        pytest.skip("this system has no files in memory")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes: list[int] = []
    files: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(self: ssl.SSLContext, certfile: str, **more: object) -> None:
        modes.append(Path(certfile).stat().st_mode & 0o777)
        files.append(len(list(tmp_path.iterdir())))
        load(self, certfile, **more)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    context(trust(made) | inline(made))
    with pytest.raises(ConfigurationError):
        context(trust(made) | inline(made) | {"key.password": "wrong"})

    assert modes == [0o600, 0o600]
    assert files == [int(on_disk)] * 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("store", [by_file, inline])
@pytest.mark.parametrize("password", [None, "hunter2"])
def test_wrong_key_password_is_told(made, store, password):
    """Also a missing one: OpenSSL would ask on the terminal and wait."""
    options = store(made)
    del options["key.password"]
    if password is not None:
        options["key.password"] = password

    with pytest.raises(ConfigurationError, match=r"kafka\.ssl\.key\.password is wrong") as caught:
        context(trust(made) | options)
    assert "hunter2" not in str(caught.value)


def test_key_of_another_is_told(made):
    """Key and certificate must belong together."""
    options = inline(made) | {"keystore.certificate.chain": made.stranger.read_text()}

    with pytest.raises(ConfigurationError, match="do not belong together"):
        context(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"truststore.certificates": "hunter2"}, "holds no PEM block -----BEGIN CERTIFICATE"),
        (
            {"truststore.certificates": "-----BEGIN CERTIFICATE-----QQ==-----END CERTIFICATE-----"},
            "a certificate that cannot be read",
        ),
        (
            {"keystore.key": "hunter2", "keystore.certificate.chain": "hunter2"},
            "holds no PEM block",
        ),
        ({"truststore.location": "/nowhere/t.pem"}, "must be on the driver and every executor"),
        ({"keystore.location": "/nowhere/k.pem"}, "must be on the driver and every executor"),
        ({"truststore.location": __file__}, "is not a PEM file with certificates"),
        ({"keystore.location": __file__}, "is not a PEM file with key and certificate chain"),
    ],
)
def test_unusable_pem_is_told(options, message):
    """By key, and by path where there is one."""
    types = {"truststore.type": "PEM", "keystore.type": "PEM"}

    with pytest.raises(ConfigurationError, match=message) as caught:
        context(types | options)
    assert "hunter2" not in str(caught.value)
