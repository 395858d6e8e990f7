"""Make the TLS context of a connection from PEM files or inline PEM."""

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twophase.kafka.option_table import PREFIX
from twophase.kafka.security import Security
from twophase.options import Secret, refuse

_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>[^-]*)-----END (?P=label)-----")
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def tls_context(security: Security) -> ssl.SSLContext:
    """Return a context that trusts and presents what the options say, or refuse by key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = security.check_hostname
    versions = sorted(_VERSIONS[name] for name in security.tls_versions)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    _trust(context, security)
    _present(context, security)
    return context


def _trust(context: ssl.SSLContext, security: Security) -> None:
    if security.truststore_certificates is not None:
        key = PREFIX + "ssl.truststore.certificates"
        pem = _pem(key, security.truststore_certificates, "CERTIFICATE")
        try:
            context.load_verify_locations(cadata=pem)
        except ssl.SSLError:
            refuse(f"{key} holds a certificate that cannot be read", key)
    elif security.truststore_location is not None:
        key = PREFIX + "ssl.truststore.location"
        try:
            context.load_verify_locations(cafile=security.truststore_location)
        except OSError as error:
            _refuse_file(key, security.truststore_location, "certificates", error)
    else:
        context.load_default_certs()


def _present(context: ssl.SSLContext, security: Security) -> None:
    # Never None: OpenSSL would then ask for the pass phrase on the terminal and wait for ever.
    password = security.key_password.reveal() if security.key_password else ""
    if security.keystore_key is not None and security.keystore_chain is not None:
        key = PREFIX + "ssl.keystore.key"
        chain = _pem(
            PREFIX + "ssl.keystore.certificate.chain", security.keystore_chain, "CERTIFICATE"
        )
        with _as_file(_pem(key, security.keystore_key, "PRIVATE KEY") + chain) as name:
            try:
                context.load_cert_chain(name, password=password)
            except ssl.SSLError:
                refuse(
                    f"{key} cannot be used: {PREFIX}ssl.key.password is wrong or missing, or key"
                    " and certificate do not belong together",
                    key,
                )
    elif security.keystore_location is not None:
        key = PREFIX + "ssl.keystore.location"
        try:
            context.load_cert_chain(security.keystore_location, password=password)
        except OSError as error:
            _refuse_file(key, security.keystore_location, "key and certificate chain", error)


@contextmanager
def _as_file(pem: str) -> Iterator[str]:
    """Yield the name of a file with this text, from which alone the ssl module loads a key.

    On Linux it is on no disk: kill -9 at this moment would leave the key there for good. Elsewhere
    it is readable by its owner alone, and gone when the context holds the key.
    """
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        with os.fdopen(os.memfd_create("pem"), "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(pem)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem", encoding="ascii") as file:
        file.write(pem)
        file.flush()
        yield file.name


def _refuse_file(key: str, location: str, content: str, error: OSError) -> None:
    if isinstance(error, ssl.SSLError):
        reason = f"is not a PEM file with {content}"
        if "keystore" in key:
            reason += f", or {PREFIX}ssl.key.password is wrong or missing"
    else:
        reason = f"cannot be read ({error.strerror}); it must be on the driver and every executor"
    refuse(f"{key}={location!r} {reason}", key)


def _pem(key: str, inline: Secret, label: str) -> str:
    """Return the blocks with that label, with line breaks: a properties file loses them."""
    blocks = []
    for found in _BLOCK.finditer(inline.reveal()):
        body = "".join(found["body"].split())
        if found["label"].endswith(label):
            lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
            name = found["label"]
            blocks.append(f"-----BEGIN {name}-----\n{lines}\n-----END {name}-----\n")
    if not blocks or not "".join(blocks).isascii():
        refuse(f"{key} holds no PEM block -----BEGIN {label}-----", key)
    return "".join(blocks)
