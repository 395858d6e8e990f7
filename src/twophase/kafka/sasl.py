"""What kafka-python needs to authenticate, and what keeps its log free of it."""

import importlib.util
import logging
import re
from pathlib import PurePath
from traceback import extract_tb
from typing import Any, Final

from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider

from twophase.kafka.option_table import PREFIX
from twophase.kafka.security import Security, TokenProvider
from twophase.options import MASK, refuse

_EXTRA_PACKAGE = {"GSSAPI": "gssapi", "AWS_MSK_IAM": "botocore"}
# Anything else would end its field in the message to the broker, or be none.
_TOKEN: Final = re.compile(r"[!-~]+")
_TALKATIVE_LOGGERS = ("kafka.net.connection", "kafka.protocol.parser")


class _MaskedText(str):
    """A password that can be encoded and joined but not shown; kafka-python logs its settings."""

    __slots__ = ()

    def __repr__(self) -> str:
        return MASK

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return MASK


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """A function that returns a token, as kafka-python wants it."""

    def __init__(self, provide: TokenProvider) -> None:
        super().__init__()
        self._provide = provide

    def token(self) -> str:
        """Return the token that the user's function returns; fail without its words, if it fails.

        An error's text may hold the token, or what it is fetched with, and would be logged. As an
        error of the connection it is tried again: who gives tokens out may be away for a moment.
        """
        try:
            token = self._provide()
        except Exception as error:  # noqa: BLE001 - the user's own code
            raise KafkaConnectionError(
                f"the token provider raised {type(error).__name__} in {_where(error)}; what it "
                "says is not shown, as it may hold a secret: call it by itself to see"
            ) from None
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise KafkaConnectionError(
                "the token provider returned no token: allowed is a text of visible characters"
            )
        return token


def _where(error: Exception) -> str:
    last = extract_tb(error.__traceback__)[-1]
    return f"{PurePath(last.filename).name}, line {last.lineno}"


class _WithoutCredentials(logging.Filter):
    """Drop the DEBUG records of kafka-python that hold SASL messages or raw bytes."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a record that could hold a password."""
        args = record.args if isinstance(record.args, tuple) else ()
        return not any(
            isinstance(arg, bytes | bytearray | memoryview)
            or type(arg).__name__.startswith("SaslAuthenticate")
            for arg in args
        )


_filter = _WithoutCredentials()


def sasl_settings(security: Security) -> dict[str, Any]:
    """Return kafka-python's SASL settings; from here on its log shows no credentials."""
    mechanism = str(security.mechanism)
    package = _EXTRA_PACKAGE.get(mechanism)
    if package is not None and importlib.util.find_spec(package) is None:
        key = PREFIX + "sasl.mechanism"
        refuse(f"{key}={mechanism} needs the Python package {package}; install it", key)
    for name in _TALKATIVE_LOGGERS:
        logging.getLogger(name).addFilter(_filter)
    settings: dict[str, Any] = {"sasl_mechanism": mechanism}
    if security.kerberos_service_name is not None:
        settings["sasl_kerberos_service_name"] = security.kerberos_service_name
    if security.tokens is not None:
        settings["sasl_oauth_token_provider"] = _Tokens(security.tokens.provide)
    if security.username is not None and security.password is not None:
        settings["sasl_plain_username"] = _username(mechanism, security.username)
        settings["sasl_plain_password"] = _MaskedText(security.password.reveal())
    return settings


def _username(mechanism: str, username: str) -> str:
    """Escape what SCRAM gives a meaning to (RFC 5802); kafka-python sends the name as it is."""
    if not mechanism.startswith("SCRAM"):
        return username
    return username.replace("=", "=3D").replace(",", "=2C")
