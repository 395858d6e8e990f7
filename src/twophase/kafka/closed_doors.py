"""Why a broker and this client do not come together: one sentence, and whether waiting can help.

A password, a certificate or a protocol that is refused stays refused, so it is said at once, as
Java clients do. What may also be a broker that goes down, or a proxy without one, is tried until
time runs out, and the sentence then says what else it may be.
"""

import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import kafka.errors as kafka_errors

from twophase.errors import AccessDenied, ConfigurationError, TwoPhaseError
from twophase.kafka.option_table import PREFIX
from twophase.kafka.security import Security

_PROTOCOL: Final = f"{PREFIX}security.protocol"

# OpenSSL's numbers (X509_V_ERR_...).
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_OTHER_NAME: Final = frozenset({62, 64})

_FRAME: Final = re.compile(r"Invalid frame length: (\d+)")
_TLS_ALERT: Final = 0x1503
_HTTP: Final = int.from_bytes(b"HT", "big")

_CERTIFICATE_REFUSED: Final = re.compile(
    r"ALERT_(BAD_CERT|CERTIFICATE|UNKNOWN_CA|UNSUPPORTED_CERT)"
)
_NOTHING_IN_COMMON: Final = re.compile(
    r"PROTOCOL_VERSION|HANDSHAKE_FAILURE|NO_SHARED_CIPHER|UNSUPPORTED_PROTOCOL|NO_PROTOCOLS"
)


def refusal(failure: BaseException, host: str, security: Security) -> TwoPhaseError | None:
    """Return what will not change by itself; None where trying again may help."""
    for cause in causes(failure):
        if isinstance(cause, TwoPhaseError):
            return cause
        for kind, told in _TOLD.items():
            if isinstance(cause, kind):
                return told(cause, host, security)
    return None


def hint(failure: BaseException | None, security: Security) -> str:
    """Return what else an end without a word may mean."""
    if failure is None:
        return "no reason was given"
    said = _said(failure)
    if any(isinstance(cause, ssl.SSLEOFError) for cause in causes(failure)):
        return (
            f"it ended the connection in the TLS handshake; a port without TLS does so, and then "
            f"{_PROTOCOL} must be PLAINTEXT or SASL_PLAINTEXT and not {security.protocol}"
        )
    if not security.authenticated and "disconnected" in said:
        other = "SASL_SSL" if security.encrypted else "SASL_PLAINTEXT"
        return (
            f"it ended the connection after the first request ({said}); a port that asks for a "
            f"password does so, and then {_PROTOCOL} must be {other} and not {security.protocol}"
        )
    return said


def causes(failure: BaseException | None) -> Iterator[BaseException]:
    """Yield a failure and what it was made of: kafka-python wraps errors as arguments."""
    for _ in range(5):
        if failure is None:
            return
        yield failure
        inner = [each for each in failure.args if isinstance(each, BaseException)]
        failure = inner[0] if inner else failure.__cause__


def _untrusted(error: ssl.SSLCertVerificationError, host: str, _: Security) -> TwoPhaseError:
    if error.verify_code in _OTHER_NAME:
        key = f"{PREFIX}ssl.endpoint.identification.algorithm"
        return ConfigurationError(
            f"the certificate of {host} is for another host: {error.verify_message.rstrip('.')}; "
            f"write a name that it has in {PREFIX}bootstrap.servers, or leave {key} empty if you "
            "know why it differs: then whoever has a certificate of the same authority can pass "
            "for a broker"
        )
    if error.verify_code in {_NOT_YET_VALID, _EXPIRED}:
        return ConfigurationError(
            f"the certificate of {host} cannot be trusted: {error.verify_message}; renew it on the "
            "broker, or correct this machine's clock"
        )
    return ConfigurationError(
        f"the certificate of {host} is from no authority that is trusted here "
        f"({error.verify_message}); give its authority in {PREFIX}ssl.truststore.location or "
        f"{PREFIX}ssl.truststore.certificates"
    )


def _tls_refused(error: ssl.SSLError, host: str, security: Security) -> TwoPhaseError | None:
    reason = error.reason or ""
    if _CERTIFICATE_REFUSED.search(reason):
        shown = security.keystore_location or security.keystore_key
        what = "the client's certificate" if shown else "a client without a certificate"
        return AccessDenied(
            f"{host} refuses {what} ({reason}); give one that the brokers trust in "
            f"{PREFIX}ssl.keystore.location, or {PREFIX}ssl.keystore.key with "
            f"{PREFIX}ssl.keystore.certificate.chain"
        )
    if _NOTHING_IN_COMMON.search(reason):
        return ConfigurationError(
            f"{host} and this client have no TLS version or cipher in common ({reason}); "
            f"{PREFIX}ssl.enabled.protocols is {','.join(security.tls_versions)}"
        )
    if reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"}:
        return ConfigurationError(
            f"{host} does not speak TLS on this port, and {_PROTOCOL} is {security.protocol}; "
            "write another port, or the protocol that this one has"
        )
    return None


def _other_protocol(error: Exception, host: str, security: Security) -> TwoPhaseError | None:
    found = _FRAME.search(str(error))
    first = int(found[1]) >> 16 if found else 0
    if first == _TLS_ALERT and not security.encrypted:
        other = "SASL_SSL" if security.authenticated else "SSL or SASL_SSL"
        return ConfigurationError(
            f"{host} speaks TLS on this port, and {_PROTOCOL} is {security.protocol}; write {other}"
        )
    if first == _HTTP:
        return ConfigurationError(
            f"{host} answers in HTTP on this port; write the port of a Kafka listener"
        )
    return None


def _wrong_credentials(error: Exception, host: str, security: Security) -> TwoPhaseError:
    return AccessDenied(
        f"{host} refuses the credentials of {PREFIX}sasl.jaas.config or the token "
        f"({PREFIX}sasl.mechanism={security.mechanism}): {_said(error)}"
    )


def _other_mechanism(_: Exception, host: str, security: Security) -> TwoPhaseError:
    return AccessDenied(
        f"{host} does not take {PREFIX}sasl.mechanism={security.mechanism} on this port; "
        "write one of the listener's sasl.enabled.mechanisms"
    )


def _no_password_wanted(_: Exception, host: str, security: Security) -> TwoPhaseError:
    other = "SSL" if security.encrypted else "PLAINTEXT"
    return ConfigurationError(
        f"{host} asks for no password on this port, and {_PROTOCOL} is {security.protocol}; "
        f"write {other}, or another port"
    )


_TOLD: Final[Mapping[type[BaseException], Callable[[Any, str, Security], TwoPhaseError | None]]] = {
    ssl.SSLCertVerificationError: _untrusted,
    ssl.SSLError: _tls_refused,
    kafka_errors.InvalidReceiveError: _other_protocol,
    kafka_errors.SaslAuthenticationFailedError: _wrong_credentials,
    kafka_errors.UnsupportedSaslMechanismError: _other_mechanism,
    kafka_errors.IllegalSaslStateError: _no_password_wanted,
}


def _said(error: BaseException) -> str:
    """Return an error's own words without kafka-python's numbers and class names before them."""
    text = re.sub(r"^(\[Error \d+\] )?(\w+Error: )*", "", str(error))
    return text or type(error).__name__
