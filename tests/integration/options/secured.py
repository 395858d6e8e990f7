"""A real broker with listeners that ask for passwords and certificates."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from integration.options.certificates import Certificates

from twophase.embedded import EmbeddedKafka, settings
from twophase.embedded.ports import free_ports
from twophase.kafka.options import KafkaOptions
from twophase.kafka.wire import Wire

USER = "ali=ce,1"
PASSWORD = 'pa"ss\\word-9f2c'
_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Secured:
    """The addresses of the listeners, by what they ask for."""

    sasl_plaintext: str
    sasl_ssl: str
    ssl: str
    mutual: str


@contextmanager
def secured_broker(made: Certificates, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secured]:
    """Run one node whose further listeners use SASL and TLS, with one user for all mechanisms."""
    names = ("SASL_PLAINTEXT", "SASL_SSL", "SSL", "MUTUAL")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    plain_properties = settings.server_properties

    def server_properties(*args: object) -> str:
        lines = dict(line.split("=", 1) for line in plain_properties(*args).splitlines())
        for name, port in ports.items():
            for key in ("listeners", "advertised.listeners"):
                lines[key] += f",{name}://127.0.0.1:{port}"
        lines["listener.security.protocol.map"] += (
            ",SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,MUTUAL:SSL"
        )
        return "".join(f"{key}={value}\n" for key, value in lines.items())

    # The embedded cluster keeps its listeners to itself; these are added to the file it writes.
    monkeypatch.setattr(settings, "server_properties", server_properties)
    with EmbeddedKafka(properties=_properties(made)) as cluster:
        _add_scram_user(cluster)
        yield Secured(*(f"127.0.0.1:{port}" for port in ports.values()))


def _properties(made: Certificates) -> dict[str, object]:
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    properties: dict[str, object] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": made.broker,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": made.authority,
        "listener.name.mutual.ssl.client.auth": "required",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        key = f"listener.name.{listener}"
        properties |= {
            f"{key}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            f"{key}.plain.sasl.jaas.config": (
                f'{_MODULES}.plain.PlainLoginModule required user_alice="{password}";'
            ),
            f"{key}.oauthbearer.sasl.jaas.config": (
                f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required"
                ' unsecuredLoginStringClaim_sub="broker";'
            ),
        }
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            properties[f"{key}.{mechanism}.sasl.jaas.config"] = (
                f"{_MODULES}.scram.ScramLoginModule required;"
            )
    return properties


def _add_scram_user(cluster: EmbeddedKafka) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    mechanisms = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    for mechanism in mechanisms:
        credential = ScramCredentialInfo(mechanism, 4096)
        wanted = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        admin.alter_user_scram_credentials([wanted])[USER].result(timeout=30)
    deadline = time.monotonic() + 30
    while True:
        # Until the broker knows the first one, it knows nobody of this name.
        with suppress(KafkaException):
            known = admin.describe_user_scram_credentials([USER])[USER].result(timeout=30)
            if len(known.scram_credential_infos) == len(mechanisms):
                return
        assert time.monotonic() < deadline


def jaas(mechanism: str, password: str = PASSWORD) -> str:
    """Return a login module as a Java user writes it."""
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    if mechanism == "PLAIN":
        name, user = "plain.PlainLoginModule", "alice"
    else:
        name, user = "scram.ScramLoginModule", USER
    return f'{_MODULES}.{name} required username="{user}" password="{quoted}";'


def unsecured_token() -> str:
    """Return a token that a broker without an identity provider accepts."""
    now = time.time()
    claims = {"sub": "alice", "iat": now, "exp": now + 600}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, claims)
    ]
    return ".".join([*parts, ""])


def brokers(options: KafkaOptions) -> int:
    """Return how many brokers a wire with these options learns of."""
    with Wire(options) as wire:
        return len(wire.nodes())
