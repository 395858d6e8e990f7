"""Certificates of a development cluster, made on the fly and good for nothing else.

`keytool` gives no private key in PEM, `openssl` is not on every machine, and the ssl module makes
no keys; so this is the one place that needs the package `cryptography`.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from twophase.errors import SetupError

_DAYS = 30
# Clocks of one machine agree, yet a certificate must not be too young for anybody.
_EARLIER = timedelta(hours=1)


@dataclass(frozen=True)
class Certificate:
    """A private key and the certificate that names its owner, both in PEM."""

    key: str = field(repr=False)
    chain: str

    @property
    def pem(self) -> str:
        """Both in one text, as Kafka's PEM key stores have them."""
        return self.key + self.chain


class Authority:
    """An authority of its own, whose key is never written anywhere."""

    def __init__(self, name: str = "twophase development authority") -> None:
        x509 = _x509()
        self._key = _new_key()
        self._name = _named(name)
        until = datetime.now(UTC) + timedelta(days=_DAYS)
        builder = _builder(self._name, self._name, self._key.public_key(), until)
        usage = dict.fromkeys(_USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
        self._certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(**usage), critical=True)
            .sign(self._key, _sha256())
        )

    @property
    def pem(self) -> str:
        """The certificate to trust."""
        return _pem(self._certificate)

    def issue(
        self,
        name: str,
        hosts: Sequence[str] = (),
        *,
        days: int = _DAYS,
        password: str | None = None,
    ) -> Certificate:
        """Return a new key with a certificate for it; with fewer than 0 days it has expired."""
        x509 = _x509()
        key = _new_key()
        until = datetime.now(UTC) + timedelta(days=days)
        builder = _builder(_named(name), self._name, key.public_key(), until)
        if hosts:
            names = x509.SubjectAlternativeName([_host(each) for each in hosts])
            builder = builder.add_extension(names, critical=False)
        signed = builder.sign(self._key, _sha256())
        return Certificate(_private_pem(key, password), _pem(signed))


_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def _x509() -> Any:
    try:
        from cryptography import x509  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise SetupError(
            "the certificates of a secured Kafka need the Python package cryptography; "
            "run pip install 'twophase[secured]'"
        ) from error
    return x509


def _sha256() -> Any:
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    return SHA256()


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    return ec.generate_private_key(ec.SECP256R1())


def _named(name: str) -> Any:
    x509 = _x509()
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, name)])


def _builder(subject: Any, issuer: Any, public_key: Any, until: datetime) -> Any:
    x509 = _x509()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(datetime.now(UTC), until) - _EARLIER)
        .not_valid_after(until)
    )


def _host(host: str) -> Any:
    x509 = _x509()
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

    text: bytes = certificate.public_bytes(Encoding.PEM)
    return text.decode("ascii")


def _private_pem(key: Any, password: str | None) -> str:
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415

    locked = form.BestAvailableEncryption(password.encode()) if password else form.NoEncryption()
    text: bytes = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, locked)
    return text.decode("ascii")
