"""Who the client is and whom it trusts: SASL and TLS as plain data, checked as a whole."""

import os.path
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NoReturn
from uuid import uuid4

from twophase.kafka.jaas import JaasError, LoginModule, parse_jaas
from twophase.kafka.option_table import OPTIONS, PREFIX, SECURITY
from twophase.options import MASK, Secret, refuse, shown

TokenProvider = Callable[[], str]


@dataclass(frozen=True, slots=True, repr=False)
class Tokens:
    """A token provider as options hold it: equal to itself wherever it has travelled.

    Pickled by value, as a function of the user's own program is, it is another object in each task,
    and each task would open connections of its own.
    """

    provide: TokenProvider = field(compare=False)
    key: str = field(default_factory=lambda: uuid4().hex)

    def __repr__(self) -> str:
        return f"Tokens({MASK})"


_JAAS_KEY = PREFIX + "sasl.jaas.config"
_MODULES: Mapping[str, str] = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    "GSSAPI": "Krb5LoginModule",
    "AWS_MSK_IAM": "IAMLoginModule",
}
_SENT_IN_CLEAR: Mapping[str, str] = {"PLAIN": "password", "OAUTHBEARER": "token"}
_BINARY_TYPES: Mapping[str, str] = {".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The security of every connection; picklable, and its repr holds no secret."""

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: Secret | None = None
    kerberos_service_name: str | None = None
    tokens: Tokens | None = None
    truststore_location: str | None = None
    truststore_certificates: Secret | None = None
    keystore_location: str | None = None
    keystore_key: Secret | None = None
    keystore_chain: Secret | None = None
    key_password: Secret | None = None
    check_hostname: bool = True
    tls_versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")

    @property
    def encrypted(self) -> bool:
        """Whether connections use TLS."""
        return self.protocol.endswith("SSL")

    @property
    def authenticated(self) -> bool:
        """Whether connections use SASL."""
        return self.protocol.startswith("SASL")

    def risks(self) -> list[str]:
        """Return what is allowed and should be known: one sentence each."""
        found = []
        if self.mechanism is not None and self.mechanism in _SENT_IN_CLEAR and not self.encrypted:
            found.append(
                f"{PREFIX}sasl.mechanism={self.mechanism} without TLS: everybody on the way reads "
                f"the {_SENT_IN_CLEAR[self.mechanism]}; write {PREFIX}security.protocol=SASL_SSL"
            )
        if self.encrypted and not self.check_hostname:
            found.append(
                f"{PREFIX}ssl.endpoint.identification.algorithm is empty: host names are not "
                "checked, and whoever has a certificate of a trusted authority can pass for a "
                "broker"
            )
        return found


def check_security(
    values: Mapping[str, Any], given: Sequence[str], token_provider: TokenProvider | None
) -> tuple[Security, list[str]]:
    """Return the security that the values describe, and the given names that it does not use."""
    protocol = values["protocol"]
    used: dict[str, Any] = {"protocol": protocol}
    unused = []
    if protocol.startswith("SASL"):
        used |= _sasl(values, token_provider)
        unused += [name for name in given if _of_another(name, values["mechanism"])]
    else:
        unused += [name for name in given if name.startswith("sasl.")]
        if token_provider is not None:
            refuse(f"a token provider needs {PREFIX}security.protocol=SASL_SSL", "token_provider")
    if protocol.endswith("SSL"):
        used |= _tls(values)
        keyless = values["keystore_location"] is None and values["keystore_key"] is None
        unused += ["ssl.key.password"] if keyless and "ssl.key.password" in given else []
    else:
        unused += [name for name in given if name.startswith("ssl.")]
    names = {option.name for option in SECURITY}
    return Security(**used), [name for name in unused if name in names]


def _of_another(name: str, mechanism: str) -> bool:
    """Whether an option of SASL means nothing to this mechanism."""
    if name == "sasl.kerberos.service.name":
        return mechanism != "GSSAPI"
    return name == "sasl.jaas.config" and mechanism in {"OAUTHBEARER", "AWS_MSK_IAM"}


def _sasl(values: Mapping[str, Any], token_provider: TokenProvider | None) -> dict[str, Any]:
    mechanism = values["mechanism"]
    module = _login_module(mechanism, values["jaas"])
    if mechanism == "OAUTHBEARER":
        if token_provider is None:
            refuse(
                f"{PREFIX}sasl.mechanism=OAUTHBEARER needs a token provider in Python: pass"
                " token_provider, a picklable function that returns a fresh token; Java's login"
                " module and token endpoint are not used",
                PREFIX + "sasl.mechanism",
            )
        return {"mechanism": mechanism, "tokens": Tokens(token_provider)}
    if token_provider is not None:
        refuse(
            f"a token provider is used with OAUTHBEARER only, not with {mechanism};"
            f" set {PREFIX}sasl.mechanism=OAUTHBEARER or leave it out",
            PREFIX + "sasl.mechanism",
        )
    if mechanism == "GSSAPI":
        return {"mechanism": mechanism, "kerberos_service_name": _kerberos(values, module)}
    if mechanism == "AWS_MSK_IAM":
        _only_options(module, frozenset())
        if values["protocol"] != "SASL_SSL":
            key = PREFIX + "security.protocol"
            refuse(f"{PREFIX}sasl.mechanism=AWS_MSK_IAM needs {key}=SASL_SSL", key)
        return {"mechanism": mechanism}
    return {"mechanism": mechanism, **_credentials(mechanism, module)}


def _login_module(mechanism: str, jaas: Secret | None) -> LoginModule | None:
    if jaas is None:
        return None
    try:
        module = parse_jaas(jaas.reveal())
    except JaasError as error:
        refuse(f"{_JAAS_KEY} cannot be read: {error}", _JAAS_KEY)
    if module.simple_name != _MODULES[mechanism]:
        # The class found is not shown: a text that is no JAAS at all may be a password.
        refuse(
            f"{_JAAS_KEY} does not name the login module of {mechanism};"
            f" write {_MODULES[mechanism]}, or correct {PREFIX}sasl.mechanism",
            _JAAS_KEY,
        )
    return module


def _credentials(mechanism: str, module: LoginModule | None) -> dict[str, Any]:
    example = f'{_MODULES[mechanism]} required username="…" password="…";'
    if module is None:
        refuse(f"{_JAAS_KEY} is missing, {mechanism} needs it: {example}", _JAAS_KEY)
    if module.options.get("tokenauth", "false").lower() == "true":
        refuse(f"{_JAAS_KEY}: delegation tokens (tokenauth) are not supported", _JAAS_KEY)
    _only_options(module, frozenset({"username", "password", "tokenauth"}))
    username, password = (module.options.get(name, "") for name in ("username", "password"))
    if not username or not password:
        refuse(f"{_JAAS_KEY} must hold username and password: {example}", _JAAS_KEY)
    return {"username": username, "password": Secret(password)}


def _kerberos(values: Mapping[str, Any], module: LoginModule | None) -> str:
    options = module.options if module else {}
    if {"keyTab", "principal"} & set(options) or options.get("useKeyTab", "").lower() == "true":
        refuse(
            f"{_JAAS_KEY}: keyTab and principal are not read here; set the environment variable"
            " KRB5_CLIENT_KTNAME to the keytab (or run kinit) on driver and executors, and leave"
            " them out",
            _JAAS_KEY,
        )
    service: str | None = values["kerberos_service_name"] or options.get("serviceName")
    if not service:
        key = PREFIX + "sasl.kerberos.service.name"
        refuse(f"{key} is missing, GSSAPI needs it; it is often 'kafka'", key)
    return service


def _only_options(module: LoginModule | None, allowed: frozenset[str]) -> None:
    # Left out, an option of the login module could let somebody else in than was meant.
    if module is not None and not set(module.options) <= allowed:
        words = ", ".join(sorted(allowed)) or "none"
        refuse(f"{_JAAS_KEY} holds an option that is not read here; allowed: {words}", _JAAS_KEY)


def _tls(values: Mapping[str, Any]) -> dict[str, Any]:
    _check_store("truststore", values, inline="truststore_certificates")
    _check_store("keystore", values, inline="keystore_key")
    if (values["keystore_key"] is None) != (values["keystore_chain"] is None):
        given, missing = "ssl.keystore.key", "ssl.keystore.certificate.chain"
        if values["keystore_key"] is None:
            given, missing = missing, given
        refuse(f"{PREFIX}{given} is given without {PREFIX}{missing}", PREFIX + missing)
    fields = (
        "truststore_location truststore_certificates keystore_location keystore_key"
        " keystore_chain key_password check_hostname tls_versions"
    )
    return {name: values[name] for name in fields.split()}


def _check_store(store: str, values: Mapping[str, Any], *, inline: str) -> None:
    key = f"{PREFIX}ssl.{store}."
    location: str | None = values[f"{store}_location"]
    kind: str | None = values[f"{store}_type"]
    if location is not None:
        by_ending = _BINARY_TYPES.get(PurePath(location).suffix.lower())
        if kind is None and by_ending is None:
            refuse(
                f"{key}location is given without {key}type, which means JKS in Java;"
                f" if the file is PEM write {key}type=PEM, else {_conversion(store, location, '')}",
                key + "type",
            )
        if by_ending is not None or kind != "PEM":
            _refuse_binary(store, location, by_ending or str(kind))
        if values[inline] is not None:
            other = PREFIX + next(n for n, row in OPTIONS.items() if row.field == inline)
            refuse(f"{key}location and {other} are both given; keep one", key + "location")
    elif kind not in {None, "PEM"}:
        refuse(f"{key}type must be PEM; JKS and PKCS12 can be read by Java only", key + "type")
    if values[f"{store}_password"] is not None:
        instead = f"; write {PREFIX}ssl.key.password for the key" if store == "keystore" else ""
        refuse(f"{key}password has no meaning with PEM{instead}; leave it out", key + "password")


def _refuse_binary(store: str, location: str, kind: str) -> NoReturn:
    key = f"{PREFIX}ssl.{store}."
    refuse(
        f"{key}location={location!r} is of type {shown(kind)}, which only Java can read;"
        f" {_conversion(store, location, kind)}",
        key + "location",
    )


def _conversion(store: str, location: str, kind: str) -> str:
    stem, ending = os.path.splitext(location)  # noqa: PTH122 PurePath refuses some odd names
    source, pem = shlex.quote(location), shlex.quote(stem + ".pem")
    if ending.lower() == ".pem":
        pem = shlex.quote(stem + ".converted.pem")
    if kind == "PKCS12":
        command = f"openssl pkcs12 -in {source} -out {pem}"
        command += " -nokeys" if store == "truststore" else ""
    elif store == "truststore":
        command = f"keytool -list -rfc -keystore {source} > {pem}"
    else:
        p12 = shlex.quote(stem + ".p12")
        command = (
            f"keytool -importkeystore -srckeystore {source} -destkeystore {p12}"
            f" -deststoretype PKCS12 && openssl pkcs12 -in {p12} -out {pem}"
        )
    password = (
        f" and {PREFIX}ssl.key.password=(the pass phrase you choose)" if store == "keystore" else ""
    )
    return (
        f"convert it with: {command} — then set {PREFIX}ssl.{store}.type=PEM,"
        f" {PREFIX}ssl.{store}.location={pem}{password}, without {PREFIX}ssl.{store}.password"
    )
