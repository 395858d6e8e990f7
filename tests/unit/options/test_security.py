"""SASL and TLS options, checked as a whole before anything is opened."""

import functools
import pickle
import traceback

import pytest
from kafka.errors import KafkaConnectionError
from pyspark import cloudpickle

from twophase.errors import ConfigurationError
from twophase.kafka.options import KafkaOptions
from twophase.kafka.security import Security
from twophase.options import Secret

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"


def parse(options: dict, **more: object) -> KafkaOptions:
    """Parse options without their prefix."""
    return KafkaOptions.parse(SERVERS | {f"kafka.{k}": v for k, v in options.items()}, **more)


def refusal(options: dict, **more: object) -> str:
    """Return the text of the refusal."""
    with pytest.raises(ConfigurationError) as caught:
        parse(options, **more)
    return str(caught.value)


def sasl(mechanism: str, jaas: str | None = None, protocol: str = "SASL_SSL") -> dict:
    """Return the options of a SASL connection."""
    options = {"security.protocol": protocol, "sasl.mechanism": mechanism}
    return options if jaas is None else options | {"sasl.jaas.config": jaas}


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", PLAIN),
        ("plain", f"kafkashaded.{PLAIN}"),
        ("SCRAM-SHA-256", SCRAM),
        ("SCRAM-SHA-512", SCRAM),
    ],
)
def test_username_and_password(mechanism, module):
    """They come out of the login module, and the value survives pickling."""
    options = parse(sasl(mechanism, f'{module} required username="u" password="p\\"w";'))

    assert options.security == Security(
        protocol="SASL_SSL", mechanism=mechanism.upper(), username="u", password=Secret('p"w')
    )
    assert options.security.encrypted
    assert options.security.authenticated
    assert pickle.loads(pickle.dumps(options)) == options
    settings = options.connection_settings()
    assert settings["sasl_plain_username"] == "u"
    assert settings["sasl_plain_password"] == 'p"w'
    assert repr(settings["sasl_plain_password"]) == "***"
    assert 'p"w' not in f"{settings} {settings['sasl_plain_password']}"


def test_scram_names_are_escaped():
    """SCRAM gives comma and equals sign a meaning (RFC 5802), PLAIN does not."""
    jaas = 'required username="a=b,c" password="p";'

    scram = parse(sasl("SCRAM-SHA-256", f"{SCRAM} {jaas}")).connection_settings()
    plain = parse(sasl("PLAIN", f"{PLAIN} {jaas}")).connection_settings()

    assert scram["sasl_plain_username"] == "a=3Db=2Cc"
    assert plain["sasl_plain_username"] == "a=b,c"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (sasl("PLAIN"), "kafka.sasl.jaas.config is missing, PLAIN needs it"),
        (sasl("PLAIN", "hunter2"), "cannot be read: it must begin with"),
        (sasl("PLAIN", f'{SCRAM} required username="u" password="p";'), "write PlainLoginModule"),
        (sasl("SCRAM-SHA-256", f'{PLAIN} required username="u" password="p";'), "ScramLoginModule"),
        (sasl("PLAIN", f'{PLAIN} required username="u";'), "must hold username and password"),
        (sasl("PLAIN", f'{PLAIN} required password="p";'), "must hold username and password"),
        (
            sasl(
                "SCRAM-SHA-256",
                f'{SCRAM} required username="u" password="p" tokenauth="true";',
            ),
            "delegation tokens",
        ),
        (
            sasl("PLAIN", f'{PLAIN} required username="u" password="p" more="x";'),
            "allowed: password, tokenauth, username",
        ),
        ({"security.protocol": "SASL_PLAINTEXT"}, "kafka.sasl.kerberos.service.name is missing"),
        (
            sasl("GSSAPI", f'{KERBEROS} required useKeyTab=true keyTab="/k" serviceName="kafka";'),
            "KRB5_CLIENT_KTNAME",
        ),
        (sasl("AWS_MSK_IAM", protocol="SASL_PLAINTEXT"), "needs kafka.security.protocol=SASL_SSL"),
        (
            sasl("AWS_MSK_IAM", "software.amazon.msk.auth.iam.IAMLoginModule required a=b;"),
            "allowed: none",
        ),
        (sasl("OAUTHBEARER"), "token_provider, a picklable function that returns a fresh token"),
    ],
)
def test_incomplete_sasl_is_refused(options, message):
    """With the key, what is missing and what to write; never with the text itself."""
    text = refusal(options)

    assert message in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    "options",
    [
        sasl("GSSAPI") | {"sasl.kerberos.service.name": "kafka"},
        sasl("GSSAPI", f'{KERBEROS} required useTicketCache=true serviceName="kafka";'),
        {"security.protocol": "SASL_SSL", "sasl.kerberos.service.name": "kafka"},
    ],
)
def test_kerberos_takes_the_service_from_either_place(options):
    """GSSAPI is the default, as in Java; the ticket comes from outside."""
    security = parse(options).security

    assert (security.mechanism, security.kerberos_service_name) == ("GSSAPI", "kafka")


@pytest.mark.parametrize(
    ("mechanism", "package"), [("GSSAPI", "gssapi"), ("AWS_MSK_IAM", "botocore")]
)
def test_missing_package_is_named(mechanism, package, monkeypatch):
    """A mechanism that needs a package more says which, before a connection is tried."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    options = parse(sasl(mechanism) | {"sasl.kerberos.service.name": "kafka"})

    with pytest.raises(ConfigurationError, match=f"needs the Python package {package}"):
        options.connection_settings()


def token(name: str) -> str:
    """Return a token, as a user's function would."""
    return f"token-of-{name}"


def test_token_provider_travels_and_is_not_shown():
    """OAUTHBEARER gets its tokens from a Python function, on whichever executor it runs."""
    options = parse(sasl("OAUTHBEARER"), token_provider=functools.partial(token, "user"))

    travelled = pickle.loads(pickle.dumps(options))
    provider = travelled.connection_settings()["sasl_oauth_token_provider"]
    # Else each task would open connections of its own, and two users might share some.
    assert (travelled, hash(travelled)) == (options, hash(options))
    assert parse(sasl("OAUTHBEARER"), token_provider=functools.partial(token, "user")) != options

    assert provider.token() == "token-of-user"
    assert provider.extensions() == {}
    assert repr(options.security.tokens) == "Tokens(***)"
    assert "token-of" not in repr(options)


def in_main():
    """A function that the user's own program has made, which Spark sends by value."""
    return eval("lambda: 'token-of-main'", {"__name__": "__main__"})


def test_a_provider_of_the_user_s_own_program_is_the_same_in_each_task():
    """Equal options have the connections of the task before."""
    options = parse(sasl("OAUTHBEARER"), token_provider=in_main())
    first, second = (cloudpickle.loads(cloudpickle.dumps(options)) for _ in range(2))
    assert first.security.tokens.provide is not second.security.tokens.provide
    assert first == second == options
    assert len({first, second, options}) == 1


def failing(secret):
    raise ValueError(f"no token for {secret}")


@pytest.mark.parametrize(
    ("provide", "said"),
    [
        (
            functools.partial(failing, "hunter2"),
            r"raised ValueError in test_security\.py, line \d+;",
        ),
        (lambda: "hunter2\x01auth=", "returned no token"),
        (lambda: b"hunter2", "returned no token"),
        (lambda: "", "returned no token"),
    ],
)
def test_a_provider_that_fails_is_told_without_its_words(provide, said):
    """They would go into the log of the connection, whatever they hold."""
    options = parse(sasl("OAUTHBEARER"), token_provider=provide)
    provider = options.connection_settings()["sasl_oauth_token_provider"]
    with pytest.raises(KafkaConnectionError, match=said) as caught:
        provider.token()
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "options", [{}, sasl("PLAIN", f'{PLAIN} required username="u" password="p";')]
)
def test_token_provider_without_use_is_refused(options):
    """It would be a mistake that nobody notices."""
    assert "token provider" in refusal(options, token_provider=token)


def ssl(**options: str) -> dict:
    """Return TLS options whose dots are written as underscores."""
    return {"security.protocol": "SSL"} | {
        f"ssl.{name.replace('_', '.')}": value for name, value in options.items()
    }


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (
            ssl(truststore_location="/etc/my trust.jks"),
            "keytool -list -rfc -keystore '/etc/my trust.jks' > '/etc/my trust.pem'",
        ),
        (
            ssl(truststore_location="/etc/trust.p12", truststore_type="PKCS12"),
            "openssl pkcs12 -in /etc/trust.p12 -out /etc/trust.pem -nokeys",
        ),
        (
            ssl(truststore_location="/etc/trust", truststore_type="JKS"),
            "keytool -list -rfc -keystore /etc/trust > /etc/trust.pem",
        ),
        (
            ssl(truststore_location="/etc/trust.JKS", truststore_type="PEM"),
            "keytool -list -rfc -keystore /etc/trust.JKS > /etc/trust.pem",
        ),
        (
            ssl(truststore_location="/etc/trust.pem", truststore_type="JKS"),
            "keytool -list -rfc -keystore /etc/trust.pem > /etc/trust.converted.pem",
        ),
        (
            ssl(truststore_location="/etc/trust"),
            "if the file is PEM write kafka.ssl.truststore.type=PEM, else convert it with: keytool",
        ),
        (
            ssl(keystore_location="/etc/key.jks", keystore_password="hunter2"),
            "-destkeystore /etc/key.p12 -deststoretype PKCS12 && openssl pkcs12 -in /etc/key.p12",
        ),
        (
            ssl(keystore_location="key.pfx"),
            "openssl pkcs12 -in key.pfx -out key.pem",
        ),
    ],
)
def test_binary_stores_are_refused_with_the_conversion(options, command):
    """By type or by ending; JKS is what Java takes a store for that has no type."""
    text = refusal(options)

    assert command in text
    assert "type=PEM" in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ssl(truststore_type="JKS"), "kafka.ssl.truststore.type must be PEM"),
        (
            ssl(truststore_type="PEM", truststore_location="/t.pem", truststore_password="hunter2"),
            "kafka.ssl.truststore.password has no meaning with PEM",
        ),
        (
            ssl(keystore_type="PEM", keystore_location="/k.pem", keystore_password="hunter2"),
            "write kafka.ssl.key.password for the key",
        ),
        (
            ssl(
                truststore_type="PEM",
                truststore_location="/t.pem",
                truststore_certificates="hunter2",
            ),
            "kafka.ssl.truststore.location and kafka.ssl.truststore.certificates are both given",
        ),
        (
            ssl(keystore_key="hunter2"),
            "kafka.ssl.keystore.key is given without kafka.ssl.keystore.certificate.chain",
        ),
        (
            ssl(keystore_certificate_chain="hunter2"),
            "kafka.ssl.keystore.certificate.chain is given without kafka.ssl.keystore.key",
        ),
    ],
)
def test_contradictions_are_refused(options, message):
    """As Java refuses them, with the keys and without the values."""
    text = refusal(options)

    assert message in text
    assert "hunter2" not in text


def test_hostname_check_and_versions():
    """An empty algorithm turns the check off; the versions bound what is offered."""
    options = ssl(endpoint_identification_algorithm="", enabled_protocols="TLSv1.3")

    context = parse(options).connection_settings()["ssl_context"]

    assert not context.check_hostname
    assert context.minimum_version == context.maximum_version
    assert parse(ssl()).connection_settings()["ssl_context"].check_hostname
